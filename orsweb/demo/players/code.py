"""A scripted player of `code`: submits a table of the results that it knows, as a script cannot
solve puzzles."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from environments.builtin.code.table_program import table_program
from orsweb.demo.scripted_session import Act


async def play(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    if random.random() > skill + 0.4:
        # a syntax error: the colon is missing
        await act("run", code=f"def {spec['signature']}\n    return None\n")
    cases = [
        case
        for case in spec["test_cases"]
        if random.random() < 0.3 * skill or random.random() < skill
    ]
    if random.random() < 0.6:
        await act("run", code=table_program(spec["signature"], cases[: len(cases) // 2]))
    await act("submit", code=table_program(spec["signature"], cases))
