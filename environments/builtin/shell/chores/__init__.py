"""The bank of `shell`: kinds of chores, each with many variants and a command that does it."""
