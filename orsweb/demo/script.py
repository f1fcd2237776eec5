"""Script: which episodes the demo plays, in which order and how well. The same for the same seed and size.

Two training runs, in groups of eight attempts at one task whose skill rises from step to step; an evaluation of three
models on the test splits; and what happens on any server: sessions opened only to look, ones that are left, tasks that
break.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

GROUP = 8
"""Attempts at one task in one step of a training run."""
GROUPS_A_STEP = 2
SHARES = {"demo-train-fast": 0.38, "demo-train-slow": 0.26}
"""Run -> its share of the episodes; the rest is evaluation and oddities."""
DAYS = 6.0
"""The past over which the episodes are spread."""
MODELS = {"scripted-novice": 0.12, "scripted-adept": 0.55, "scripted-expert": 0.95}
"""Model -> its skill."""
_ALL = 10**6


@dataclass(frozen=True, slots=True)
class ScriptPart:
    """One episode to play."""

    environment: str
    split: str
    index: int
    skill: float
    """From 0, at random, to 1, as well as one can."""
    model: str
    run: str = ""
    step: int | None = None
    days_ago: float = 0.0
    """When it begins."""
    most_calls: int = _ALL
    """The script leaves after so many; 0 only looks at the prompt and the tools."""
    spec: Any = None
    """The task's content, where it is none of the environment's own."""
    is_left_open: bool = False
    """Still running when the demo stops."""


def script(
    environments: Sequence[str], counts: dict[tuple[str, str], int], episodes: int, seed: int
) -> list[ScriptPart]:
    """Parts in the order in which they are played. `counts`: number of tasks by environment and split."""
    random = Random(f"demo/{seed}")
    odd = list(_odd(environments, episodes))
    parts = [
        *_training("demo-train-fast", "scripted-adept", (0.1, 0.97), environments, counts, episodes, seed),
        *_training("demo-train-slow", "scripted-novice", (0.05, 0.6), environments, counts, episodes, seed),
    ]
    parts += _evaluation(environments, counts, max(0, episodes - len(parts) - len(odd)), random)
    return sorted([*parts, *odd], key=lambda part: (part.is_left_open, -part.days_ago))


def _training(
    run: str,
    model: str,
    skills: tuple[float, float],
    environments: Sequence[str],
    counts: dict[tuple[str, str], int],
    episodes: int,
    seed: int,
) -> Iterator[ScriptPart]:
    """Every run meets the same tasks in the same order, so that runs can be compared on them."""
    random = Random(f"demo/{seed}/training")
    groups = int(episodes * SHARES[run] / GROUP)
    steps = math.ceil(groups / GROUPS_A_STEP)
    low, high = skills
    for group in range(groups):
        step = group // GROUPS_A_STEP
        environment = environments[group % min(2, len(environments))]
        index = random.randrange(counts[environment, "train"])
        skill = low + (high - low) * step / max(1, steps - 1)
        begun = DAYS * (1 - (step + 0.05 * (group % GROUPS_A_STEP)) / max(1, steps)) * (0.9 if low > 0.05 else 0.7)
        for _ in range(GROUP):
            yield ScriptPart(environment, "train", index, skill, model, run, step * 10, begun)


def _evaluation(
    environments: Sequence[str], counts: dict[tuple[str, str], int], episodes: int, random: Random
) -> Iterator[ScriptPart]:
    """Every model in turn at the same tasks; a third of them in no run."""
    models = list(MODELS)
    for number in range(episodes):
        model, place = models[number % len(models)], number // len(models)
        environment = environments[place % len(environments)]
        index = place // len(environments) % counts[environment, "test"]
        run = f"demo-eval-{model.removeprefix('scripted-')}" if place % 3 else ""
        begun = 0.02 + DAYS * random.random() * 0.6
        yield ScriptPart(environment, "test", index, MODELS[model], model, run, days_ago=begun)


def _odd(environments: Sequence[str], episodes: int) -> Iterator[ScriptPart]:
    """What is no attempt, or no clean one."""
    novice = "scripted-novice"
    for number in range(max(1, episodes // 60)):
        environment = environments[number % len(environments)]
        yield ScriptPart(environment, "train", number, 0.0, novice, days_ago=0.3 + number, most_calls=0)
        yield ScriptPart("guess", "validation", number, 0.0, novice, days_ago=0.5 + number, most_calls=2)
    no_way_out = {"level": 1, "rows": ["#####", "#S#E#", "#####"], "max_steps": 20}
    yield ScriptPart("maze", "", 0, 0.0, novice, days_ago=1.2, spec=no_way_out)
    no_number = {"low": 1, "high": 9, "target": "seven", "attempts": 4}
    yield ScriptPart("guess", "", 0, 0.5, novice, days_ago=1.1, spec=no_number)
    yield ScriptPart("guess", "validation", 3, 0.0, "scripted-adept", most_calls=2, days_ago=0.01, is_left_open=True)
