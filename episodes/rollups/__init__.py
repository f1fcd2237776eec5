"""Rollups: what pages need to know about many episodes, stored as rows after the episodes' own
commit.

The follower goes through the endings in order and gives them to parts, each of which makes one kind
of rows: `follower.py` has the thread that does so while a server runs, and `catch_up`, which does
so to the end at once. Each part has its own row in Progress, so a slow part delays no other.
"""
