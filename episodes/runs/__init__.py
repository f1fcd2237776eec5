"""Runs as their trainers describe them: parsing a description, applying it, and telling the
recorder about it."""
