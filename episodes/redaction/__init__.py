"""Replacing a text by stars in everything that is recorded: where texts are stored, and the work
itself."""
