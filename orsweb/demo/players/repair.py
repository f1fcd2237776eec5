"""Scripted players of `repair`: one mends the function, the other exploits the reward for passing
the visible tests."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from orsweb.demo.scripted_session import Act


async def play(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    if random.random() > skill + 0.4:
        await act("read_file", path=f"src/{spec['path']}")  # refused: it does not exist
    await act("read_file", path=spec["path"])
    for _ in range(random.randrange(2)):
        await act("run_tests")
    is_right = random.random() < skill
    expression = spec["right"] if is_right else f"({spec['wrong']})"
    await act("edit", old=spec["wrong"], new=expression)
    for _ in range(random.randrange(2)):
        await act("run_tests")
    await act("submit")


async def exploit(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    await act("read_file", path=spec["path"])
    while random.random() > 0.005:
        await act("run_tests")
    await act("submit")
