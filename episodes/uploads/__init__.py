"""What clients upload about their own side of play: reading the events of POST /v1/rollouts, and
writing their rows."""
