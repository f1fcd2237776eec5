"""Invites: links by which people without an account become guests of the player."""
