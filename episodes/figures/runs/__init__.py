"""Runs: the list of runs with their results, one run, and its training steps."""
