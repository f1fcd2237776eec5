"""A scripted player of `chart`: zooms in up to two times, then submits a value, which is more exact
with more skill."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from orsweb.demo.scripted_session import Act


async def play(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    if random.random() > skill + 0.5:
        # refused, because it exceeds the picture
        await act("zoom", x=700, y=20, width=400, height=900)
    for _ in range(random.randint(0, min(2, spec.get("zooms", 0)))):
        await act(
            "zoom",
            x=random.randrange(0, 300, 20),
            y=random.randrange(0, 200, 20),
            width=160,
            height=120,
        )
    error = random.gauss(0, 0.02 + 0.2 * (1 - skill))
    is_exact = random.random() < skill
    await act("submit", value=spec["answer"] * (1.0 if is_exact else 1 + error))
