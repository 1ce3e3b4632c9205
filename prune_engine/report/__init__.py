"""A run as one HTML file: collect it from a store and a result folder, draw it, write it."""
