"""maze: find the way out of a maze; in some it is dark, in some doors are locked.

Actions: `move` by one or several cells; `look` along a corridor (level 2), `pick_up` a key and
`unlock` a door (levels 3 and 4), `light` a match and draw a `map` (level 4). Every cell walked and
every other action takes one step, also a bump into a wall; what cannot be tried at all is refused
and takes none.
Observations: after each action the map as text and as a picture, as far as it is seen; where one
can go; what is left. Level 1 shows the whole maze, 2 what has been seen so far, 3 the whole maze
with keys and doors, 4 only what is beside the player, more by the light of a match.
Rewards: 0.5 for the way, paid as it is made: 0.5 * (p(after) - p(before)) with p = max(-1, 1 -
actions still needed / actions needed at the start), so going back gives back what was gained. 0.3
for reaching the exit and 0.2 * fewest actions / actions taken. So an escape returns 0.8 to 1.0 and
the best one 1.0; all else less than 0.5.
End: the exit was reached, or no step is left.
Splits: train (200), validation (50), test (100); no maze stands in two of them.
Origin: written for this server, as an example of dense rewards, of pictures and of tools that
depend on the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from environments import (
    Blocks,
    Calls,
    Environment,
    ImageBlock,
    JSONObject,
    ListToolsOutput,
    Split,
    TextBlock,
    ToolError,
    ToolOutput,
    ToolSpec,
    tool,
)
from environments.builtin.maze import grid, layouts, picture
from environments.builtin.maze.grid import (
    DIRECTIONS,
    DOORS,
    FLOOR,
    PLAYER,
    UNSEEN,
    Cell,
    Grid,
    Situation,
)

WAY_REWARD, EXIT_REWARD, SHORTNESS_REWARD = 0.5, 0.3, 0.2
MATCH_REACH, MATCH_STEPS = 4, 6
TASK_TOOLS = {
    1: (),
    2: ("look",),
    3: ("pick_up", "unlock"),
    4: ("pick_up", "unlock", "light", "map"),
}
"""Tools by level, in addition to `move`."""
HAS_ALL_IN_SIGHT = (1, 3)
WALL_PLACES = {"up": "above you", "down": "below you"}
PROMPTS = {
    1: "You see all of it.",
    2: "You see only what is beside you and remember what you have seen; `look` shows a corridor "
    "to its end.",
    3: "You see all of it. Doors A, B, C are locked: walk onto the key of the same letter, "
    "`pick_up`, then `unlock` "
    "beside the door.",
    4: "It is dark: you see only what is beside you. `light` a match to see farther for a while, "
    "draw a `map` to see "
    "all that you have seen so far. Doors are locked: walk onto the key of the same letter, "
    "`pick_up`, then `unlock` "
    "beside the door.",
}


class MazeTask(BaseModel):
    """A maze and the actions that are possible in it."""

    level: int = Field(
        ge=1,
        le=4,
        description="1: all in sight, 2: what was seen, 3: with doors, 4: doors in the dark.",
    )
    rows: list[str] = Field(
        min_length=1,
        description="The maze: # wall, . floor, S start, E exit, a b c keys, A B C "
        "the doors they open.",
    )
    max_steps: int = Field(
        ge=1, description="Cells walked and other actions, after which the episode ends."
    )
    matches: int = Field(default=0, ge=0, description="Matches to light, at level 4.")
    seed: str = Field(default="", description="Where the maze came from.")


Direction = Literal["up", "down", "left", "right"]


class Move(BaseModel):
    direction: Direction
    steps: int = Field(
        default=1, ge=1, le=20, description="How many cells; you stop earlier at a wall."
    )


class Look(BaseModel):
    direction: Direction


class Maze(Environment):
    """Find the way out of a maze, in full sight, in fog or in the dark, past locked doors.

    Tools: `move`, and by level `look`, `pick_up`, `unlock`, `light`, `map`. Every answer is a map, as text and picture.
    Rewards are dense: up to 0.5 for coming closer, 0.3 for the exit, up to 0.2 for a short way.
    Task: `level` (1 to 4), `rows`, `max_steps`, `matches`, `seed`.
    """

    task_schema: ClassVar[type[BaseModel]] = MazeTask
    replayable: ClassVar[bool] = True
    fixed_tasks: ClassVar[bool] = True
    hidden_fields: ClassVar[Sequence[str]] = ("rows",)
    default_return: ClassVar[str] = "sum"
    reward_range: ClassVar[tuple[float, float]] = (-WAY_REWARD, 1.0)
    success_threshold: ClassVar[float] = 0.75

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        """Raises: ValueError when the rows are no maze or have no way out."""
        super().__init__(task_spec, secrets)
        self.task = MazeTask.model_validate(task_spec)
        self.grid = Grid(self.task.rows)
        self.distances = self.grid.distances()
        self.now = Situation(self.grid.start)
        if self.now not in self.distances:
            raise ValueError(
                "No way leads from S to E; open a wall, or put each key where it can be reached."
            )
        self.steps_taken, self.matches_left, self.lit_until = 0, self.task.matches, -1
        self.earned = 0.0
        self.trail: set[Cell] = set()
        self.seen: set[Cell] = self.grid.around(self.now.cell)

    @classmethod
    def name(cls) -> str:
        return "maze"

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return list(layouts.COUNTS)

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return layouts.tasks(split)

    @classmethod
    def hand_controls(cls) -> JSONObject:
        ways: list[JSONObject] = [
            {
                "label": way.capitalize(),
                "key": f"Arrow{way.capitalize()}",
                "tool": "move",
                "input": {"direction": way},
            }
            for way in DIRECTIONS
        ]
        looks: list[JSONObject] = [
            {
                **way,
                "label": f"Look {way['input']['direction']}",
                "key": f"Shift+{way['key']}",
                "tool": "look",
            }
            for way in ways
        ]
        others: list[JSONObject] = [
            {"label": name.replace("_", " ").capitalize(), "key": name[0], "tool": name}
            for name in ("pick_up", "unlock", "light", "map")
        ]
        return {"controls": [*ways, *looks, *others], "drawing": "image"}

    def get_prompt(self) -> Blocks:
        text = (
            f"You (@) are in a maze of {self.grid.width} x {self.grid.height} cells. Reach the "
            f"exit E within {self.task.max_steps} steps, by as short a way as you can. "
            f"{PROMPTS[self.task.level]}\nEach cell walked takes a step, and so does every other "
            "action and a bump into a wall.\nLegend: # wall, . floor, S start, E exit, a b c "
            "keys, A B C their locked doors, ? not in sight."
        )
        return [TextBlock(text=text), *self._view("You are at the start.")]

    def list_task_tools(self) -> ListToolsOutput:
        """Return the tools that the level adds to `move`."""
        return ListToolsOutput(tools=[_tool_spec(name) for name in TASK_TOOLS[self.task.level]])

    # Exclusive, because plain methods run on threads and all of them change where the player is.

    @tool(exclusive=True)
    def move(self, params: Move) -> ToolOutput:
        """Walk in a direction: up, down, left or right, one cell or several. You stop at walls and locked doors."""
        cells = 0
        while cells < params.steps and self.steps_left and self.now.cell != self.grid.exit:
            after = self.grid.walk(self.now, params.direction)
            if after == self.now:
                break
            self.trail.add(self.now.cell)
            self._take_step(after)
            cells += 1
        if cells:
            return self._output(
                f"You go {params.direction}{f' {cells} cells' if cells > 1 else ''}."
            )
        target = self.grid.at(grid.beside(self.now.cell, params.direction))
        self._take_step(self.now)
        if target in DOORS:
            return self._output(f"Door {target} is locked.")
        where = WALL_PLACES.get(params.direction, f"on your {params.direction}")
        return self._output(f"You bump into the wall {where}.")

    @tool(shared=False, exclusive=True)
    def look(self, params: Look) -> ToolOutput:
        """Look along a corridor to its end, without going there. Takes one step."""
        self._check_level("look")
        self.seen |= self.grid.ahead(self.now.cell, params.direction, self.now.open_doors)
        self._take_step(self.now)
        return self._output(f"You look {params.direction}.")

    @tool(shared=False, exclusive=True)
    def pick_up(self) -> ToolOutput:
        """Pick up the key you stand on. Takes one step."""
        self._check_level("pick_up")
        after = self.grid.pick_up(self.now)
        if after == self.now:
            raise ToolError(
                "There is no key where you stand; walk onto one (a, b or c on the map) first."
            )
        self._take_step(after)
        return self._output(f"You pick up key {self.grid.keys[after.cell]}.")

    @tool(shared=False, exclusive=True)
    def unlock(self) -> ToolOutput:
        """Unlock the door beside you with the key of its letter. Takes one step."""
        self._check_level("unlock")
        after = self.grid.unlock(self.now)
        if after == self.now:
            raise ToolError(f"No locked door beside you fits; you carry {self._carried}.")
        doors = sorted(self.grid.doors[cell] for cell in after.open_doors - self.now.open_doors)
        self._take_step(after)
        return self._output(f"You unlock door {' and '.join(doors)}.")

    @tool(shared=False, exclusive=True)
    def light(self) -> ToolOutput:
        """Light a match: you see farther for a few steps. Takes one step and one of your matches."""
        self._check_level("light")
        if not self.matches_left:
            raise ToolError("You have no match left; feel your way with move, or use map.")
        self.matches_left -= 1
        self.lit_until = self.steps_taken + 1 + MATCH_STEPS  # lighting it is a step too
        self._take_step(self.now)
        return self._output(f"A match burns, for {MATCH_STEPS} steps.")

    @tool(shared=False, exclusive=True)
    def map(self) -> ToolOutput:
        """Draw a map of all that you have seen so far. Takes one step."""
        self._check_level("map")
        self._take_step(self.now)
        return self._output("You draw what you have seen.", is_map=True)

    def oracle(self) -> Iterator[tuple[str, JSONObject]]:
        while self.now.cell != self.grid.exit:
            name, _ = min(
                self.grid.actions(self.now),
                key=lambda action: self.distances.get(action[1], self.task.max_steps),
            )
            yield ("move", {"direction": name}) if name in DIRECTIONS else (name, {})

    def exploits(self) -> Mapping[str, Calls]:
        there = next(name for name, _ in self.grid.actions(self.now))
        back = {"up": "down", "down": "up", "left": "right", "right": "left"}[there]
        return {"to and fro": [("move", {"direction": there}), ("move", {"direction": back})] * 3}

    # --- what an action does ---

    @property
    def steps_left(self) -> int:
        return self.task.max_steps - self.steps_taken

    def _check_level(self, name: str) -> None:
        if name not in TASK_TOOLS[self.task.level]:
            possible = ", ".join(("move", *TASK_TOOLS[self.task.level]))
            raise ToolError(f"{name} is not possible in this maze; use one of: {possible}.")

    def _take_step(self, after: Situation) -> None:
        self.now = after
        self.steps_taken += 1
        self.seen |= self._in_sight()

    def _in_sight(self) -> set[Cell]:
        if self.steps_taken <= self.lit_until:
            return self.grid.within(self.now.cell, MATCH_REACH, self.now.open_doors)
        return self.grid.around(self.now.cell)

    def _reward(self) -> float:
        """Return what this action adds to the return, so that the sum stays exact to a millionth."""
        fewest = self.distances[Situation(self.grid.start)]
        due = WAY_REWARD * max(-1.0, 1 - self.distances[self.now] / max(1, fewest))
        if self.now.cell == self.grid.exit:
            due += EXIT_REWARD + SHORTNESS_REWARD * fewest / self.steps_taken
        reward = round(due - self.earned, 6) + 0.0  # no -0.0
        self.earned += reward
        return reward

    def _output(self, what: str, *, is_map: bool = False) -> ToolOutput:
        is_out = self.now.cell == self.grid.exit
        if is_out:
            fewest = self.distances[Situation(self.grid.start)]
            what += (
                f" You are out, after {self.steps_taken} steps; {fewest} is the fewest possible."
            )
        elif not self.steps_left:
            what += " No step is left."
        return ToolOutput(
            blocks=self._view(what, is_map=is_map),
            reward=self._reward(),
            finished=is_out or not self.steps_left,
        )

    # --- what is seen ---

    def _view(self, what: str, *, is_map: bool = False) -> list[TextBlock | ImageBlock]:
        """Return `what` happened, the map, and what can be done; then the map as a picture."""
        rows = self._rows(is_map=is_map)
        text = f"{what}\n\n{chr(10).join(rows)}\n\n{self._standing()}"
        return [TextBlock(text=text), picture.picture(self._with_trail(rows))]

    def _rows(self, *, is_map: bool) -> list[str]:
        """Return the map, with the player, open doors as floor, taken keys gone, and ? for what is not in sight."""
        visible = self._visible(is_map=is_map)
        return [
            "".join(
                self._mark((y, x)) if visible is None or (y, x) in visible else UNSEEN
                for x in range(self.grid.width)
            )
            for y in range(self.grid.height)
        ]

    def _visible(self, *, is_map: bool) -> set[Cell] | None:
        """Return the cells that the map shows; None stands for all cells."""
        if self.task.level in HAS_ALL_IN_SIGHT or self.now.cell == self.grid.exit:
            return None
        return self.seen if self.task.level == 2 or is_map else self._in_sight()

    def _mark(self, cell: Cell) -> str:
        mark = self.grid.at(cell)
        if cell == self.now.cell:
            return PLAYER
        return FLOOR if mark in self.now.keys or cell in self.now.open_doors else mark

    def _with_trail(self, rows: Sequence[str]) -> list[str]:
        """Return the rows of the map in the marks of the picture, which has some more."""
        marks = [list(row) for row in rows]
        for y, x in self.trail:
            marks[y][x] = picture.TRAIL if marks[y][x] == FLOOR else marks[y][x]
        for y, x in self.now.open_doors:
            door = picture.OPEN_DOOR[self.grid.doors[y, x]]
            marks[y][x] = door if marks[y][x] in (FLOOR, picture.TRAIL) else marks[y][x]
        y, x = self.now.cell
        if self._key_here:
            marks[y][x] = picture.PLAYER_ON_KEY[self._key_here]
        return ["".join(row) for row in marks]

    @property
    def _key_here(self) -> str:
        key = self.grid.keys.get(self.now.cell, "")
        return "" if key in self.now.keys else key

    def _standing(self) -> str:
        y, x = self.now.cell
        ways = [way for way in DIRECTIONS if self.grid.walk(self.now, way) != self.now]
        parts = [
            f"You are in row {y + 1}, column {x + 1} and can go {', '.join(ways) or 'nowhere'}."
        ]
        if self._key_here:
            parts.append(f"Key {self._key_here} lies here.")
        if self.grid.doors:
            parts.append(f"You carry {self._carried}.")
        if self.task.level == 4:
            parts.append(f"Matches left: {self.matches_left}.")
        return " ".join([*parts, f"Steps left: {self.steps_left}."])

    @property
    def _carried(self) -> str:
        return ", ".join(f"key {key}" for key in sorted(self.now.keys)) or "no key"


def _tool_spec(name: str) -> ToolSpec:
    description = (getattr(Maze, name).__doc__ or "").strip()
    return ToolSpec(
        name=name,
        description=description,
        input_schema=Look.model_json_schema() if name == "look" else None,
    )
