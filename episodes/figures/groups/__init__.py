"""Groups: the attempts at one task in one training step of a run."""
