"""The loop of a run, piece by piece: rounds, budgets, what is known of a task, finals.

`prune_engine.engine` turns it.
"""
