"""What people see on a terminal: streams, colour, tables, the progress of a run. Of no verb, and without typer."""
