"""Hardware profiles: what a device can do, as data."""
