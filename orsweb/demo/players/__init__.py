"""Scripted players, one for each environment of the demo, that play as well as their `skill` says.

A player knows the whole task, including its hidden fields. `skill`, from 0 to 1, is how often it
uses that knowledge instead of guessing. A player without skill also makes mistakes like someone who
has not read the tools' descriptions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

from orsweb.demo.players import chart, code, guess, math, maze, repair, shell, web
from orsweb.demo.scripted_session import Act

Player = Callable[[Mapping[str, Any], float, Random, Act], Awaitable[None]]
"""`await play(spec, skill, random, act)` plays an episode to its end. Raises: Over, which `act`
raises."""

PLAYERS: dict[str, Player] = {
    "math": math.play,
    "guess": guess.play,
    "maze": maze.play,
    "chart": chart.play,
    "web": web.play,
    "shell": shell.play,
    "code": code.play,
    "repair": repair.play,
}
