"""Capability tables of devices, one YAML file each."""
