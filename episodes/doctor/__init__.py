"""The reward doctor: looks for known flaws of rewards in what was recorded in an environment, a
split or a run."""
