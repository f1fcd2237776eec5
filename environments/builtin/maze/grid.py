"""The grid of a maze: its cells, the effects of actions, and the distance of every situation from
the exit.

Driven by `maze` (playing) and `layouts` (making tasks). Cells are (row, column), from 0 at the top
left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

Cell = tuple[int, int]

DIRECTIONS: dict[str, Cell] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
WALL, FLOOR, START, EXIT, UNSEEN, PLAYER = "#", ".", "S", "E", "?", "@"
KEYS, DOORS = "abc", "ABC"
MAX_CELLS = 41 * 41
MAX_LOCKS = 5
"""Keys and doors together: each doubles the situations to be measured."""


class Situation(NamedTuple):
    """Position of the player, carried keys and open doors. A tuple, because thousands are compared."""

    cell: Cell
    keys: frozenset[str] = frozenset()
    open_doors: frozenset[Cell] = frozenset()


class Grid:
    """A maze as rows of equal length: `#` wall, `.` floor, `S` start, `E` exit, `a`-`c` keys, `A`-`C` their doors."""

    def __init__(self, rows: Sequence[str]) -> None:
        """Raises: ValueError with one sentence that says what to change in the rows."""
        self.rows = list(rows)
        self.height, self.width = len(self.rows), len(self.rows[0]) if self.rows else 0
        self._check_shape()
        open_cells = {
            (y, x): mark
            for y, row in enumerate(self.rows)
            for x, mark in enumerate(row)
            if mark != WALL
        }
        self.start, self.exit = (self._only(mark, open_cells) for mark in (START, EXIT))
        self.keys = {cell: mark for cell, mark in open_cells.items() if mark in KEYS}
        self.doors = {cell: mark for cell, mark in open_cells.items() if mark in DOORS}
        if len(self.keys) + len(self.doors) > MAX_LOCKS:
            raise ValueError(
                f"{len(self.keys) + len(self.doors)} keys and doors; at most "
                f"{MAX_LOCKS} are possible."
            )
        self._free = {
            (y, x): [
                near
                for near in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1))
                if near in open_cells
            ]
            for y, x in open_cells
        }

    def _check_shape(self) -> None:
        for number, row in enumerate(self.rows, 1):
            if len(row) != self.width:
                raise ValueError(
                    f"row {number} has {len(row)} cells and row 1 has {self.width}; "
                    "make them equal."
                )
            if strange := sorted(set(row) - set(WALL + FLOOR + START + EXIT + KEYS + DOORS)):
                raise ValueError(
                    f"row {number} contains {strange[0]!r}; use only # . S E, keys a "
                    "b c, doors A B C."
                )
        if self.width * self.height > MAX_CELLS:
            raise ValueError(
                f"{self.width} x {self.height} cells; at most {MAX_CELLS} are possible."
            )

    def _only(self, sought: str, cells: Mapping[Cell, str]) -> Cell:
        places = [cell for cell, mark in cells.items() if mark == sought]
        if len(places) != 1:
            raise ValueError(
                f"{sought!r} stands {len(places)} times in the rows; it must stand "
                "there exactly once."
            )
        return places[0]

    def at(self, cell: Cell) -> str:
        """Return the mark of a cell; everything outside is wall."""
        y, x = cell
        return self.rows[y][x] if 0 <= y < self.height and 0 <= x < self.width else WALL

    def is_closed(self, cell: Cell, open_doors: frozenset[Cell]) -> bool:
        """Return whether neither feet nor eyes get through: a wall, or a door that is not in `open_doors`."""
        return self.at(cell) == WALL or (cell in self.doors and cell not in open_doors)

    # --- actions: each answers the situation after it, the same one when it changes nothing ---

    def walk(self, before: Situation, direction: str) -> Situation:
        """Move one cell in `direction`."""
        target = beside(before.cell, direction)
        return before if self.is_closed(target, before.open_doors) else before._replace(cell=target)

    def pick_up(self, before: Situation) -> Situation:
        """Pick up the key in this cell, if there is one."""
        key = self.keys.get(before.cell)
        return before if key is None else before._replace(keys=before.keys | {key})

    def unlock(self, before: Situation) -> Situation:
        """Open every door next to the player that a carried key fits."""
        fitting = {
            cell
            for cell in self._free[before.cell]
            if self.doors.get(cell, "").lower() in before.keys
        }
        return before._replace(open_doors=before.open_doors | fitting) if fitting else before

    def actions(self, before: Situation) -> list[tuple[str, Situation]]:
        """Return every action that changes the situation, with the situation after it."""
        walks = [(direction, self.walk(before, direction)) for direction in DIRECTIONS]
        others = [("pick_up", self.pick_up(before)), ("unlock", self.unlock(before))]
        return [(name, after) for name, after in [*walks, *others] if after != before]

    # --- what is seen and how far it is ---

    def distances(self) -> dict[Situation, int]:
        """Return the fewest actions to the exit, for every situation reachable from the start that can still get there.

        Explores forward once and then goes back from the exit along the same edges.
        """
        first = Situation(self.start)
        sources: dict[Situation, list[Situation]] = {first: []}
        waiting = deque([first])
        while waiting:
            before = waiting.popleft()
            for after in self._next(before):
                if after not in sources:
                    sources[after] = []
                    waiting.append(after)
                sources[after].append(before)
        return _fewest_actions(sources, [source for source in sources if source.cell == self.exit])

    def _next(self, before: Situation) -> Iterator[Situation]:
        cell, keys, open_doors = before
        if cell == self.exit:
            return
        for near in self._free[cell]:
            if near not in self.doors or near in open_doors:
                yield Situation(near, keys, open_doors)
        if cell in self.keys and self.keys[cell] not in keys:
            yield self.pick_up(before)
        if keys and (after := self.unlock(before)) != before:
            yield after

    def around(self, cell: Cell) -> set[Cell]:
        """Return the cell and the eight cells about it."""
        y, x = cell
        return {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)}

    def ahead(self, cell: Cell, direction: str, open_doors: frozenset[Cell]) -> set[Cell]:
        """Return what a look along `direction` shows: the corridor with its sides, up to what stops it."""
        cells = self.around(cell)
        while not self.is_closed(cell := beside(cell, direction), open_doors):
            cells |= self.around(cell)
        return cells

    def within(self, cell: Cell, reach: int, open_doors: frozenset[Cell]) -> set[Cell]:
        """Return what a light shows: all that is at most `reach` steps away, and the walls about it."""
        edge, lit = {cell}, {cell}
        for _ in range(reach):
            fresh = {beside(near, direction) for near in edge for direction in DIRECTIONS} - lit
            edge = {near for near in fresh if not self.is_closed(near, open_doors)}
            lit |= edge
        return set().union(*(self.around(near) for near in lit))


def beside(cell: Cell, direction: str) -> Cell:
    dy, dx = DIRECTIONS[direction]
    return cell[0] + dy, cell[1] + dx


def _fewest_actions(
    sources: dict[Situation, list[Situation]], ends: list[Situation]
) -> dict[Situation, int]:
    distances = dict.fromkeys(ends, 0)
    waiting = deque(ends)
    while waiting:
        after = waiting.popleft()
        for before in sources[after]:
            if before not in distances:
                distances[before] = distances[after] + 1
                waiting.append(before)
    return distances
