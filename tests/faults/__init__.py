"""Faults: what may happen to a run, done to it on purpose. `python -m tests.faults --help`."""
