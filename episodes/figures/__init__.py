"""Figures over many episodes, with the pages and the JSON that show them: a folder for each subject,
and at the root what they share.

What computes figures knows no request and no HTML, and returns frozen dataclasses. The definition
of return and success is a parameter everywhere (`environments/scoring/definition.py`), so that
switching it rewrites nothing. What would cost too much to read whole is read in part, and
`is_bounded` says so.
"""
