"""Comparisons of two episodes, and of runs on the tasks that they share."""
