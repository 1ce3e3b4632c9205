"""Public kit for plugin authors."""
