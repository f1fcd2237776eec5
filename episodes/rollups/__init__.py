"""The follower: what pages need of many episodes, kept as rows after the episodes' own commit, in the order of endings.

`thread.py` follows while a server runs; `catch_up.py` does it to the end at once. Each part (`parts.py`) has a place of
its own in Progress, so a slow one holds up nobody.
"""
