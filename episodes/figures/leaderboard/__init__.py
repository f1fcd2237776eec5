"""Leaderboards: the results of models, runs or players at the tasks of an environment."""
