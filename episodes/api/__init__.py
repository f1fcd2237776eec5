"""The API: what was recorded, read-only, as JSON under /api/. See `base.py` for who may read what."""
