"""Analytics: figures over many episodes as frozen dataclasses, for pages, the API and commands. No
request, no HTML.

The definition of return and success is a parameter everywhere
(`environments/scoring/definition.py`), so that switching it rewrites nothing. What would cost too
much to read whole is read in part, and `is_bounded` says so.
"""
