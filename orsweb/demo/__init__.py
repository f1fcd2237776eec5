"""A demonstration: a few hundred recorded episodes, played by scripts of different skill. Run by
`manage.py demo`.

The scripts use the same service and recorder as agents. Only the clock is replaced, so that the
pages show a week of episodes instead of half a minute.
"""
