"""Which calls a generated episode makes: every tool gets its turn, and those that end it come last."""

from __future__ import annotations

from collections.abc import Iterator, Set
from random import Random
from typing import Any

from environments.checking.inputs import Inputs, Unproducible
from environments.checking.text import Seen

FINAL_MESSAGE = "The answer is 42."
ENDING_SHARE = 0.1
"""Of the calls, once it is known which tools end an episode."""

Choice = tuple[str, dict[str, Any]]


def choices(listing: dict[str, Any], steps: int, random: Random, seen: Seen, endings: Set[str]) -> Iterator[Choice]:
    """Tool and input of each call; `endings` are tools known to end an episode, and the terminal tool comes last."""
    makers = _makers(listing["tools"], random, seen)
    for name in _names(sorted(makers), steps, random, endings):
        yield name, makers[name].valid()
    if ending := listing.get("terminal_tool"):
        yield ending["name"], {ending["arg"]: FINAL_MESSAGE} if ending.get("arg") else {}


def _makers(tools: list[dict[str, Any]], random: Random, seen: Seen) -> dict[str, Inputs]:
    makers = {}
    for tool in tools:
        try:
            inputs = Inputs(tool["input_schema"], random, seen)
            inputs.valid()
        except Unproducible:  # told by the check of schemas
            continue
        makers[tool["name"]] = inputs
    return makers


def _names(names: list[str], steps: int, random: Random, endings: Set[str]) -> Iterator[str]:
    if not names:
        return
    going_on = [name for name in names if name not in endings] or names
    ending = [name for name in names if name in endings]
    random.shuffle(going_on)
    yield from going_on[:steps]
    for _ in range(steps - len(going_on) - 1):
        yield random.choice(ending if ending and random.random() < ENDING_SHARE else going_on)
    if ending:
        yield random.choice(ending)
