"""A scripted player of `maze`: takes the action with the shortest way out, or walks at random."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from environments.builtin.maze.grid import DIRECTIONS, Grid, Situation
from orsweb.demo.scripted_session import Act


async def play(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    grid = Grid(spec["rows"])
    distances = grid.distances()
    now = Situation(grid.start)
    if spec["level"] == 4 and spec.get("matches") and random.random() < 0.7:
        await act("light")
    while True:
        if random.random() < 0.01 * (1 - skill):
            await act("pick_up")  # refused if there is nothing to pick up, or no such tool
        moves = [
            (name, after)
            for name in DIRECTIONS
            if (after := grid.walk(now, name)) in distances and after != now
        ]
        actions = grid.actions(now) or [("up", now)]
        name, after = min(actions, key=lambda action: distances.get(action[1], 10**6))
        if random.random() >= 0.35 + 0.65 * skill and moves:
            name, after = random.choice(moves)
        if name in DIRECTIONS:
            await act("move", direction=name)
        else:
            await act(name)
        now = after
