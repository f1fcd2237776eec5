"""Face: the data API of the commercial platform, so that its clients work with this server.

`openreward` and the command `orwd` reach it when OPENREWARD_API_URL names this server.
"""
