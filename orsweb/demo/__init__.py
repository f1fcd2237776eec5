"""Demo: a few hundred recorded episodes for somebody who has none yet, played by scripts of different skill.

`manage.py demo` drives it. They enter by the same service and recorder as any agent; only the clock is lent, so that
a week of work stands on the pages instead of half a minute.
"""
