"""Speed of each export format in steps per second, over the first episodes. Used by
`dashboard.py`."""

from __future__ import annotations

import time

MIN_STEPS_PER_SECOND = 20_000.0
EPISODES = 20_000


def measure(only: str, *, by_cpu: bool, slowness: float = 1.0) -> tuple[bool, bool]:
    """Print a line for each format. Returns whether all could be written, and whether all were fast
    enough."""
    from episodes.models import Episode, Step
    from episodes.transfer.exporting import FORMATS

    formats = [name for name in FORMATS if only in f"export {name}"]
    if not formats:
        return True, True
    steps = Step.objects.filter(episode__lte=EPISODES).count()
    print(f"\nexport of {steps:,} steps (target {MIN_STEPS_PER_SECOND:,.0f} a second)")
    met = []
    for name in formats:
        rate, size = _exported(Episode.objects.filter(pk__lte=EPISODES), name, steps, by_cpu=by_cpu)
        met.append(rate * slowness >= MIN_STEPS_PER_SECOND)
        print(
            f"{name:<36}{rate:>10,.0f} steps/s{size / 2**20:>8.0f} MB  "
            f"{'PASS' if met[-1] else 'FAIL'}",
            flush=True,
        )
    return True, all(met)


def _exported(episodes: object, name: object, steps: int, *, by_cpu: bool) -> tuple[float, int]:
    """Export the episodes; return the steps per second and the size in bytes."""
    from episodes.transfer.exporting import exported

    clock = time.process_time if by_cpu else time.perf_counter
    started = clock()
    size = sum(len(piece) for piece in exported(episodes, name))  # type: ignore[arg-type,misc]  # Django is not set up at the top
    return steps / (clock() - started), size
