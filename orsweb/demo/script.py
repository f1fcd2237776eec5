"""The script of the demo: which episodes are played, in which order and how well, by seed and size.

It has two training runs, in groups of eight attempts at one task with a skill that rises from step
to step; an evaluation of three models on the test splits; and what happens on every server:
sessions that only read the prompt, abandoned ones, and tasks that fail.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from environments.runtime.records import Player

GROUP_ATTEMPTS = 8
"""Attempts at one task in one step of a training run."""
GROUPS_PER_STEP = 2
SHARES = {"demo-train-fast": 0.38, "demo-train-slow": 0.26}
"""Training run -> its share of all episodes; the others are the evaluation and special cases."""
DAYS = 6.0
"""Days before now over which the episodes are spread."""
MODELS = {"scripted-novice": 0.12, "scripted-adept": 0.55, "scripted-expert": 0.95}
"""Skill of each scripted model."""
_UNLIMITED = 10**6


@dataclass(frozen=True, slots=True)
class ScriptPart:
    """An episode that the script plays."""

    environment: str
    split: str
    index: int
    skill: float
    """Skill of the player, from 0 (random actions) to 1 (best actions)."""
    model: str
    run: str = ""
    step: int | None = None
    days_ago: float = 0.0
    """Start of the episode, in days before now."""
    max_calls: int = _UNLIMITED
    """Tool calls after which the session is abandoned; 0: only the prompt and the tools are
    read."""
    spec: Any = None
    """The content of the task, if it is not one of the environment's own tasks."""
    is_left_open: bool = False
    """Whether the episode is still running when the demo ends."""
    is_exploit: bool = False
    """Whether the reward of `repair` is exploited."""
    player: Player = "script"


def script(
    environments: Sequence[str], counts: dict[tuple[str, str], int], episodes: int, seed: int
) -> list[ScriptPart]:
    """Return the episodes in the order in which they are played. `counts`: number of tasks by
    environment and split."""
    random = Random(f"demo/{seed}")
    special = list(_special_cases(environments, episodes))
    parts = [
        *_training(
            "demo-train-fast", "scripted-adept", (0.1, 0.97), environments, counts, episodes, seed
        ),
        *_training(
            "demo-train-slow", "scripted-novice", (0.05, 0.6), environments, counts, episodes, seed
        ),
    ]
    parts += _evaluation(environments, counts, max(0, episodes - len(parts) - len(special)), random)
    return sorted([*parts, *special], key=lambda part: (part.is_left_open, -part.days_ago))


def _training(
    run: str,
    model: str,
    skills: tuple[float, float],
    environments: Sequence[str],
    counts: dict[tuple[str, str], int],
    episodes: int,
    seed: int,
) -> Iterator[ScriptPart]:
    """Yield the episodes of a training run; every run plays the same tasks in the same order, for
    comparison."""
    random = Random(f"demo/{seed}/training")
    groups = int(episodes * SHARES[run] / GROUP_ATTEMPTS)
    steps = math.ceil(groups / GROUPS_PER_STEP)
    low, high = skills
    for group in range(groups):
        step = group // GROUPS_PER_STEP
        environment = environments[group % min(2, len(environments))]
        index = random.randrange(counts[environment, "train"])
        skill = low + (high - low) * step / max(1, steps - 1)
        share = (step + 0.05 * (group % GROUPS_PER_STEP)) / max(1, steps)
        days_ago = DAYS * (1 - share) * (0.9 if low > 0.05 else 0.7)
        for _ in range(GROUP_ATTEMPTS):
            yield ScriptPart(environment, "train", index, skill, model, run, step * 10, days_ago)


def _evaluation(
    environments: Sequence[str], counts: dict[tuple[str, str], int], episodes: int, random: Random
) -> Iterator[ScriptPart]:
    """Yield the episodes of an evaluation: every model plays the same tasks. A third of the tasks
    is in no run."""
    models = list(MODELS)
    for number in range(episodes):
        model, place = models[number % len(models)], number // len(models)
        environment = environments[place % len(environments)]
        index = place // len(environments) % counts[environment, "test"]
        run = f"demo-eval-{model.removeprefix('scripted-')}" if place % 3 else ""
        days_ago = 0.02 + DAYS * random.random() * 0.6
        yield ScriptPart(environment, "test", index, MODELS[model], model, run, days_ago=days_ago)


def _special_cases(environments: Sequence[str], episodes: int) -> Iterator[ScriptPart]:
    """Yield the episodes that do not count as attempts, or end in a failure."""
    novice = "scripted-novice"
    for number in range(max(1, episodes // 60)):
        environment = environments[number % len(environments)]
        yield ScriptPart(
            environment, "train", number, 0.0, novice, days_ago=0.3 + number, max_calls=0
        )
        yield ScriptPart(
            "guess", "validation", number, 0.0, novice, days_ago=0.5 + number, max_calls=2
        )
    no_way_out = {"level": 1, "rows": ["#####", "#S#E#", "#####"], "max_steps": 20}
    yield ScriptPart("maze", "", 0, 0.0, novice, days_ago=1.2, spec=no_way_out)
    no_number = {"low": 1, "high": 9, "target": "seven", "attempts": 4}
    yield ScriptPart("guess", "", 0, 0.5, novice, days_ago=1.1, spec=no_number)
    yield ScriptPart(
        "guess",
        "validation",
        3,
        0.0,
        "scripted-adept",
        max_calls=2,
        days_ago=0.01,
        is_left_open=True,
    )
