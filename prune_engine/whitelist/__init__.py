"""The whitelist: schedules that no guess may drop, as data, as files, and in a run."""
