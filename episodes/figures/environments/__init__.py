"""Environments with the figures of their attempts, and the overview."""
