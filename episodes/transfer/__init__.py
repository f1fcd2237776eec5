"""Exports recorded episodes to files and imports them. Used by `manage.py export_episodes` and
`import_episodes`, the export page and the API. Knows nothing of requests and HTML.

Export: `exporting.py` says which episodes go into a file, `export_file.py` reads them in batches,
and a module for each format in `formats/` turns them into text. Import: `episode_line.py` parses and
checks a line, and `importing.py` writes the episodes in batches. Trajectories in ATIF are written
and read in `formats/atif/`.
"""
