"""Many episodes, equal for equal seeds, and what plain Python computes from them: for tests of
rollups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from environments.models import Environment, Split
from environments.runtime.records import EpisodeEnded, EpisodeStarted, RunInfo
from episodes.attempts.endings import Ending, endings_of
from episodes.models import Episode
from tests.episodes.counting import CAUSES
from tests.episodes.recorded import record
from tests.factories import NOON, episode_ended, episode_started

THRESHOLD = 0.5


def play(
    count: int, *, seed: int = 7, first: int = 1, other: str = "script", **changes: Any
) -> None:
    """Record `count` episodes from number `first` on, a quarter of them of the kind of player
    `other`.

    `changes`: values of every ending.
    """
    random = Random(seed)
    for name in ("echo", "math"):
        environment, _ = Environment.objects.get_or_create(
            name=name, defaults={"success_threshold": THRESHOLD}
        )
        Split.objects.get_or_create(environment=environment, name="train", type="train")
    numbers = range(first, first + count)
    record(*((_start(random, n, other), _end(random, n, changes)) for n in numbers))


def _start(random: Random, number: int, other: str) -> EpisodeStarted:
    name, model = random.choice(["", "r1", "r2"]), random.choice(["", "m1", "m2"])
    # another model is another run
    run = RunInfo(name, number // 50, f"m{name[1:]}" if name and model else model)
    return episode_started(
        number,
        environment=random.choice(["echo", "echo", "math"]),
        split=random.choice([None, "train"]),
        spec_json=str(random.randrange(12)),
        run=run,
        player=random.choice(["agent", "agent", "agent", other]),
    )


def _end(random: Random, number: int, changes: dict[str, Any]) -> EpisodeEnded:
    values: dict[str, Any] = {
        "cause": random.choice(CAUSES),
        "is_named": number % 2 == 0,
        "steps": random.choice([0, 1, 5, 9]),
        "refused": random.choice([0, 0, 1]),
        "failed": int(number % 3 == 0),
        "ended": NOON + 60 * number,
        "return_sum": random.choice([0.0, 1.0, random.gauss(0.5, 0.3)]),
        "return_last": random.choice([None, 0.0, 1.0]),
        "return_max": random.gauss(0.5, 0.3),
        "return_mean": None,
    }
    return episode_ended(number, **(values | changes))


def played(**conditions: Any) -> list[Ending]:
    """Return the endings of the episodes that meet `conditions`, in order."""
    return endings_of(Episode.objects.filter(**conditions))


def attempts(endings: Sequence[Ending]) -> list[Ending]:
    return [ending for ending in endings if ending.is_attempt]


def own(endings: Sequence[Ending]) -> list[Ending]:
    """Return the endings that count with their own return by every convention."""
    return [ending for ending in endings if ending.kind in ("finished", "abandoned")]


def expired(endings: Sequence[Ending]) -> list[Ending]:
    return [ending for ending in endings if ending.kind == "expired"]


def causes(endings: Sequence[Ending]) -> Counter[str]:
    return Counter(ending.kind for ending in endings)
