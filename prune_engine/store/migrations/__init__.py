"""Schema history of the SQL store."""
