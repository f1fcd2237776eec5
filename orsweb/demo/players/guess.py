"""A scripted player of `guess`: halves the range or guesses at random; with little skill, also
outside the range."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from orsweb.demo.scripted_session import Act


async def play(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    low, high = spec["low"], spec["high"]
    if random.random() < 0.3 * (1 - skill):
        await act("guess", number=random.choice([high + random.randint(1, 40), "the middle", None]))
    if spec.get("hint") and random.random() < 0.4:
        await act("hint")
        middle = (low + high) // 2
        low, high = (low, middle) if spec["target"] <= middle else (middle + 1, high)
    while True:
        is_careful = random.random() < skill
        number = (low + high) // 2 if is_careful else random.randint(spec["low"], spec["high"])
        await act("guess", number=number)
        if number < spec["target"]:
            low = max(low, number + 1)
        else:
            high = min(high, number - 1)
