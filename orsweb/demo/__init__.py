"""A demonstration: recorded episodes, played by scripts of different skill. Run by `manage.py demo`,
or from the overview of an empty server (`load_page.py`).

A few hundred are played by the same service and recorder as agents' episodes (`script_runner.py`);
only the clock is replaced, so that the pages show a week of them instead of half a minute. The
15,000 of a record as researchers have it (`research.py`) are played without sessions
(`bulk_play.py`).
"""
