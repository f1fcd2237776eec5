"""Continuing: people play on from a step of a recorded episode, once the steps up to it were called
again."""
