"""Cost of publishing live events to an open page: the speed of agents (scenario `play`) with and
without such a page.

The page is represented by its event stream, which is read until the end of each round. Rounds with
and without it alternate, each with a server and a database of its own. Used by `dashboard.py`.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from statistics import median

from benchmarks.load import Load, Sample
from benchmarks.scenarios import drive
from benchmarks.servers import Workshop

MAX_SHARE = 0.05
"""Largest acceptable loss of episodes per second."""


def measure(only: str, rounds: int, seconds: float, *, by_cpu: bool) -> tuple[bool, bool]:
    """Print both speeds. Returns whether every answer was right, and whether the cost meets the
    target."""
    if only not in "publishing" or not rounds:
        return True, True
    samples: dict[bool, list[Sample]] = {False: [], True: []}
    with Workshop() as workshop:
        for number in range(2 * rounds):
            # the order of the two alternates too
            is_followed = bool((number + number // 2) % 2)
            samples[is_followed].append(_sample(workshop, seconds, is_followed=is_followed))
    rates = {
        which: median(sample.episodes_per_second for sample in found)
        for which, found in samples.items()
    }
    cpu = {
        which: median(one.cpu_ms_per_episode["server"] for one in found)
        for which, found in samples.items()
    }
    share = cpu[True] / cpu[False] - 1 if by_cpu else 1 - rates[True] / rates[False]
    print(f"\npublishing (target: at most {MAX_SHARE:.0%} of the agents' speed)")
    for which, name in ((False, "without a page"), (True, "with an open page")):
        print(f"{name:<36}{rates[which]:>8.0f} episodes/s, {cpu[which]:.3f} CPU ms per episode")
    print(f"{'cost':<36}{share:>8.1%}  {'PASS' if share <= MAX_SHARE else 'FAIL'}")
    return not any(one.errors for found in samples.values() for one in found), share <= MAX_SHARE


def _sample(workshop: Workshop, seconds: float, *, is_followed: bool) -> Sample:
    with (
        workshop.started("ours") as (port, processes),
        following(port) if is_followed else nullcontext(),
    ):
        return drive(Load(seconds=seconds, port=port, processes=processes))


@contextmanager
def following(port: int) -> Iterator[None]:
    """Read the event stream of all episodes in a thread. Raises: RuntimeError when the server
    refuses it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/events/?channel=episodes", headers={"Accept": "text/event-stream"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"The event stream returned status {answer.status}.")
    reader = threading.Thread(target=_read, args=(answer,), daemon=True)
    reader.start()
    try:
        yield
    finally:
        if connection.sock:
            connection.sock.close()


def _read(answer: http.client.HTTPResponse) -> None:
    try:
        while answer.read1(65536):
            pass
    except (OSError, ValueError, AttributeError, http.client.HTTPException):
        pass  # closed at the end of the round
