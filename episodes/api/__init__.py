"""The JSON API under /api/ for recorded episodes, read-only except for descriptions of runs.

`auth.py` says who may read what.
"""
