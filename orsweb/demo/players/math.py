"""A scripted player of `math`: submits the answer or a wrong one; with little skill, also text that
is not a number."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from orsweb.demo.scripted_session import Act


async def play(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    answer, difficulty = spec["answer"], spec.get("difficulty", 1)
    if random.random() > skill + 0.35:
        await act("submit", answer=f"somewhere between {answer - 3:g} and {answer + 4:g}")
    if random.random() < skill ** (difficulty / 2):
        await act("submit", answer=answer)
    else:
        await act(
            "submit", answer=round(answer * random.choice([0.1, 0.5, 0.9, 1.1, 2, 10]) + 1, 2)
        )
