"""The formats of files of episodes. Each module, and the package `atif`, has FORMATS, the formats
that it writes. `export_format.py` finds them, so a new format is one new file here."""
