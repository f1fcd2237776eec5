"""A scripted player of `shell`: lists files, then runs the commands that solve the task, or useless
ones."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from environments.builtin.shell.chores.bank import solution_of
from orsweb.demo.scripted_session import Act

_LOOKS = ["ls -R", "ls -l", "find . -type f | head", "wc -c $(find . -type f) | tail -1"]
_BLUNDERS = [
    "cat notes.md",
    "sudo ls /",
    "grpe -r total .",
    "ls -l",
    "curl http://example.com/",
    "python -V",
    "ls -l",
]


async def play(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    await act("bash", command=random.choice(_LOOKS))
    while random.random() > 0.3 + 0.7 * skill:
        await act("bash", command=random.choice(_BLUNDERS))
    if random.random() < 0.4:
        await act("read_file", path=random.choice([*spec["files"], "README"]))
    if random.random() < skill:
        await act("bash", command=solution_of(spec))
    elif random.random() < 0.5:
        goal = random.choice(spec["goals"])
        await act(
            "bash",
            command=f"mkdir -p $(dirname {goal['path']}); printf %s '{goal['text'][:9]}' > "
            f"{goal['path']}",
        )
    await act("submit")
