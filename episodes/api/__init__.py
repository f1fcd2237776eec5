"""The read-only JSON API under /api/ for recorded episodes. `auth.py` says who may read what."""
