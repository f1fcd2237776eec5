"""Transfer: recorded episodes into files and back. Driven by `manage.py export_episodes` and `import_episodes`, the
export page and the API; no request, no HTML.

Out: `source.py` reads episodes in pieces, a writer for each format makes text of them, `exporting.py` joins the two.
In: `line.py` reads a line into a checked episode, `importing.py` writes them in batches.
"""
