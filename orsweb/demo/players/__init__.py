"""Players: a script for each bundled environment, that plays as well as it is told to.

A player knows the task with all that is hidden in it. `skill`, from 0 to 1, is how often it uses that: what it does not
use it guesses, and a player without skill also makes the mistakes of somebody who has not read the tools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

from orsweb.demo.players import chart, code, guess, math, maze, shell, web
from orsweb.demo.scripted_session import Act

Player = Callable[[Mapping[str, Any], float, Random, Act], Awaitable[None]]
"""`await play(spec, skill, random, act)` until it has nothing left to do. Raises: Over, out of `act`."""

PLAYERS: dict[str, Player] = {
    "math": math.play,
    "guess": guess.play,
    "maze": maze.play,
    "chart": chart.play,
    "web": web.play,
    "shell": shell.play,
    "code": code.play,
}
