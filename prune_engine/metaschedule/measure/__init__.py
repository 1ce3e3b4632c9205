"""Building and running candidates in processes of their own."""
