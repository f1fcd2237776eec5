"""Tasks with their attempts and figures."""
