"""`python -m prune_engine.cli` is `prune-engine`."""

from prune_engine.cli.app import main

main()
