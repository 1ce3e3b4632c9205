"""The command line: `prune-engine VERB`, one file per verb."""

from prune_engine.cli.app import main

__all__ = ["main"]
