"""Suites: frozen lists of tasks with one score, who reached which, and how two compare."""
