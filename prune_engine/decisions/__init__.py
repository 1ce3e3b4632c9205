"""Decision chains: what became of each candidate that was looked at closely, as JSON lines in files."""
