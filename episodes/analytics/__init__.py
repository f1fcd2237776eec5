"""Analytics: what many episodes say together, as frozen dataclasses. No request, no HTML.

Read by pages, the API and commands. The definition of return and success is a parameter everywhere (`definition.py`),
so switching it rewrites nothing. What costs too much to be read whole is read in part and says so (`is_bounded`).
"""
