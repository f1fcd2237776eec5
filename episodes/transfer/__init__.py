"""Exports recorded episodes to files and imports them. Used by `manage.py export_episodes` and
`import_episodes`, the export page and the API. Knows nothing of requests and HTML.

Export: `export_source.py` reads episodes in chunks, a writer for each format turns them into text,
and `exporting.py` joins the two. Import: `episode_line.py` parses and checks a line, and
`importing.py` writes the episodes in batches. Trajectories in ATIF are written and read in `atif/`.
"""
