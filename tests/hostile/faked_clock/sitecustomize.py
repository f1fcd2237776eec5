"""Python imports this at its start in a server whose clock libfaketime fakes.

Python sleeps until a moment of the monotonic clock, which libfaketime 0.9.10 refuses while it
leaves that clock alone.
"""

import select
import time


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep
