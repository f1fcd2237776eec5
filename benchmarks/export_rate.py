"""Steps per second of exports, each format over the first episodes of the database. Used by `dashboard.py`."""

from __future__ import annotations

import time

MIN_STEPS = 20_000.0
"""A second."""
EPISODES = 20_000


def measure(only: str, *, by_cpu: bool, slowness: float = 1.0) -> tuple[bool, bool]:
    """Print a line for each format; whether all could be written, and whether all were fast enough."""
    from episodes.models import Episode, Step
    from episodes.transfer.exporting import FORMATS

    formats = [name for name in FORMATS if only in f"export {name}"]
    if not formats:
        return True, True
    steps = Step.objects.filter(episode__lte=EPISODES).count()
    print(f"\nexport of {steps:,} steps (target {MIN_STEPS:,.0f} a second)")
    met = []
    for name in formats:
        rate, size = _exported(Episode.objects.filter(pk__lte=EPISODES), name, steps, by_cpu=by_cpu)
        met.append(rate * slowness >= MIN_STEPS)
        print(f"{name:<36}{rate:>10,.0f} steps/s{size / 2**20:>8.0f} MB  {'PASS' if met[-1] else 'FAIL'}", flush=True)
    return True, all(met)


def _exported(episodes: object, name: object, steps: int, *, by_cpu: bool) -> tuple[float, int]:
    """Steps per second, bytes."""
    from episodes.transfer.exporting import exported

    clock = time.process_time if by_cpu else time.perf_counter
    began = clock()
    size = sum(len(piece) for piece in exported(episodes, name))  # type: ignore[arg-type,misc]  # Django is not set up at the top
    return steps / (clock() - began), size
