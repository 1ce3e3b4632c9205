"""What loading and calling other people's code takes. `prune_engine.plugins` is the host made of it."""
