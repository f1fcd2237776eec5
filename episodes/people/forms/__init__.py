"""The forms in which people enter the inputs of tools: a field for each member of a flat input, and
JSON for any other."""
