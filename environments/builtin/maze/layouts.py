"""The mazes of the splits, from one seeded generator each; used by `maze.py`.

A maze is a tree of corridors (so a door on the way shuts it for certain), into which a few loops
are broken afterwards, none of them around a door. The exit is the cell farthest from the start.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from environments.builtin.maze.grid import (
    DIRECTIONS,
    EXIT,
    FLOOR,
    KEYS,
    START,
    WALL,
    Cell,
    Grid,
    Situation,
    beside,
)

COUNTS = {"train": 200, "validation": 50, "test": 100}
SIZES = {1: (4, 6), 2: (5, 7), 3: (6, 8), 4: (6, 8)}
"""Level -> fewest and most corridor cells a side; the grid has twice as many and one."""
LOCKS = {1: 0, 2: 0, 3: 2, 4: 1}
PATIENCE = {1: 2.0, 2: 4.0, 3: 2.0, 4: 4.0}
"""Level -> how many times the shortest way the steps last."""


def tasks(split: str) -> list[dict[str, Any]]:
    """Return every task of the split, in order: dicts as `Task` of `maze.py` describes them."""
    return [{**task} for task in _tasks(split)]


@cache
def _tasks(split: str) -> list[dict[str, Any]]:
    """Make the tasks once in a process: a split may be listed often, and its mazes take 2 ms
    each."""
    return [_task(split, index) for index in range(COUNTS[split])]


def _task(split: str, index: int) -> dict[str, Any]:
    """Return the task at `index`; levels take turns."""
    random = Random(f"maze/{split}/{index}")
    level = index % 4 + 1
    rows = _rows(random, level)
    grid = Grid(rows)
    shortest = grid.distances()[Situation(grid.start)]
    spec = {"level": level, "rows": rows, "max_steps": round(shortest * PATIENCE[level]) + 10}
    return {**spec, "matches": 3 if level == 4 else 0, "seed": f"{split}/{index}"}


def _rows(random: Random, level: int) -> list[str]:
    high, wide = (random.randint(*SIZES[level]) for _ in range(2))
    marks = _corridors(random, high, wide)
    start = 2 * random.randrange(high) + 1, 2 * random.randrange(wide) + 1
    way = _longest_way(marks, start)
    doors = [way[len(way) * number // (LOCKS[level] + 1)] for number in range(1, LOCKS[level] + 1)]
    regions = _regions(marks, start, doors)
    marks[start], marks[way[-1]] = START, EXIT
    for number, door in enumerate(doors):
        key_cells = [cell for cell in regions[number] if marks[cell] == FLOOR and cell not in way]
        marks[
            random.choice(sorted(key_cells or [c for c in regions[number] if marks[c] == FLOOR]))
        ] = KEYS[number]
        marks[door] = KEYS[number].upper()
    _break_loops(random, marks, regions, how_many=(high + wide) // 4)
    return ["".join(marks[y, x] for x in range(2 * wide + 1)) for y in range(2 * high + 1)]


def _corridors(random: Random, high: int, wide: int) -> dict[Cell, str]:
    """Return corridors by depth-first carving: long and winding, with few junctions."""
    marks = {(y, x): WALL for y in range(2 * high + 1) for x in range(2 * wide + 1)}
    trail = [(2 * random.randrange(high) + 1, 2 * random.randrange(wide) + 1)]
    marks[trail[0]] = FLOOR
    while trail:
        y, x = trail[-1]
        fresh = [
            (dy, dx)
            for dy, dx in DIRECTIONS.values()
            if marks.get((y + 2 * dy, x + 2 * dx)) == WALL
        ]
        if not fresh:
            trail.pop()
            continue
        dy, dx = random.choice(fresh)
        trail.append((y + 2 * dy, x + 2 * dx))
        marks[y + dy, x + dx] = marks[trail[-1]] = FLOOR
    return marks


def _longest_way(marks: dict[Cell, str], start: Cell) -> list[Cell]:
    """Return the cells from `start` to the one farthest from it."""
    before = {start: start}
    for cell in (queue := [start]):
        for after in (beside(cell, way) for way in DIRECTIONS):
            if marks[after] != WALL and after not in before:
                before[after] = cell
                queue.append(after)
    way = [queue[-1]]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]


def _regions(marks: dict[Cell, str], start: Cell, doors: list[Cell]) -> list[set[Cell]]:
    """Return the regions between doors: the first region holds the start, the last the exit."""
    regions: list[set[Cell]] = []
    entrance = start
    for door in [*doors, None]:
        region, todo = {entrance}, [entrance]
        while todo:
            cell = todo.pop()
            near = [
                near_cell
                for near_cell in (beside(cell, way) for way in DIRECTIONS)
                if marks[near_cell] != WALL and near_cell not in region
            ]
            fresh = [
                near_cell
                for near_cell in near
                if near_cell not in doors and not any(near_cell in other for other in regions)
            ]
            region.update(fresh)
            todo += fresh
        regions.append(region - set(doors))
        entrance = door or entrance
    return regions


def _break_loops(
    random: Random, marks: dict[Cell, str], regions: list[set[Cell]], how_many: int
) -> None:
    """Open walls between two corridors of one region, so that there is more than one way and a
    shortest one."""
    places = sorted((cell, region) for cell, region in _partitions(marks, regions))
    for cell, _ in random.sample(places, min(how_many, len(places))):
        marks[cell] = FLOOR


def _partitions(marks: dict[Cell, str], regions: list[set[Cell]]) -> list[tuple[Cell, int]]:
    """Return the walls with a corridor of the same region on both sides, each with the region's
    number."""
    number_of = {cell: number for number, region in enumerate(regions) for cell in region}
    partitions = []
    for (y, x), mark in marks.items():
        # only walls between two corridors have one even coordinate
        if mark != WALL or y % 2 == x % 2:
            continue
        near, other = ((y, x - 1), (y, x + 1)) if y % 2 else ((y - 1, x), (y + 1, x))
        number = number_of.get(near)
        if number is not None and number == number_of.get(other):
            partitions.append(((y, x), number))
    return partitions
