"""Schedule transfer in a run: from which model, which seeds, what became of them, what a task leaves to others.

How schedules are re-fitted is a plugin's affair (`prune_engine.strategies.ScheduleTransfer`).
"""
