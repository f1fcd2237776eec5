"""The maze environment: its mazes, its levels, what is seen, and rewards that no detour can
raise."""

import base64
import hashlib
import io
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from PIL import Image

from environments import ToolError, ToolOutput
from environments.authoring.hosted_class import HostedClass
from environments.builtin.maze.grid import Situation
from environments.builtin.maze.layouts import COUNTS
from environments.builtin.maze.maze import Look, Maze, Move
from tests.rows import each

ROOM = ["#######", "#S...E#", "#.###.#", "#.....#", "#######"]
LOCKED = ["#######", "#Sa.AE#", "#######"]


@cache
def tasks_of(split: str) -> list[dict[str, Any]]:
    return list(Maze.list_tasks(split))


def every_task() -> list[dict[str, Any]]:
    return [task for split in COUNTS for task in tasks_of(split)]


def maze(rows: list[str] = ROOM, **changes: Any) -> Maze:
    return Maze({"level": 1, "rows": rows, "max_steps": 40, "matches": 1, **changes})


def go(episode: Maze, *ways: str, steps: int = 1) -> ToolOutput:
    outputs = [episode.move(Move(direction=way, steps=steps)) for way in ways]  # type: ignore[arg-type]
    return outputs[-1]


def said(output: ToolOutput) -> str:
    return str(getattr(output.blocks[0], "text", ""))


def map_of(output: ToolOutput) -> list[str]:
    return said(output).split("\n\n")[1].splitlines()


def solve(episode: Maze) -> list[ToolOutput]:
    """Play on by the shortest way, through the tools."""
    outputs: list[ToolOutput] = []
    while not (outputs and outputs[-1].finished):
        outputs.append(_best(episode)())
    return outputs


def _best(episode: Maze) -> Callable[[], ToolOutput]:
    """Return the call that leads to the nearest situation."""
    grid, now, distances = episode.grid, episode.now, episode.distances
    calls: dict[Situation, Callable[[], ToolOutput]] = {grid.pick_up(now): episode.pick_up}
    calls[grid.unlock(now)] = episode.unlock
    for way in ("up", "down", "left", "right"):
        calls[grid.walk(now, way)] = lambda way=way: go(episode, way)  # type: ignore[misc]  # bound now, called now
    calls.pop(now, None)
    return calls[min(calls, key=lambda after: distances.get(after, 10**6))]


def returned(outputs: list[ToolOutput]) -> float:
    return sum(output.reward or 0.0 for output in outputs)


# --- the tasks ------------------------------------------------------------------------------------


def test_it_can_be_hosted_with_the_tools_of_its_levels() -> None:
    hosted = HostedClass(Maze)
    assert (hosted.name, [spec.name for spec in hosted.class_tools.tools]) == ("maze", ["move"])
    assert {spec.name for spec in hosted.tools.task_specific} == {
        "look",
        "pick_up",
        "unlock",
        "light",
        "map",
    }


def test_it_has_no_maze_twice() -> None:
    assert len({tuple(task["rows"]) for task in every_task()}) == len(every_task())


def test_it_keeps_the_mazes_it_always_had() -> None:
    """Recorded episodes refer to tasks by content: change the generator on purpose only, and this
    test with it."""
    assert {split: len(tasks_of(split)) for split in COUNTS} == COUNTS
    assert hashlib.sha256(json.dumps(every_task()).encode()).hexdigest()[:16] == "6d855721f8e786fc"


@each("level", [1, 2, 3, 4])
def test_it_can_be_escaped_from_every_maze_with_the_full_return(level: int) -> None:
    for task in (task for task in every_task() if task["level"] == level):
        outputs = solve(_without_pictures(Maze(task)))
        assert returned(outputs) == pytest.approx(1.0, abs=1e-5), task


def _without_pictures(episode: Maze) -> Maze:
    """Return the same game without pictures, because there are hundreds of them at once."""
    episode._view = lambda what, *, is_map=False: []  # type: ignore[method-assign]
    return episode


@pytest.mark.parametrize("level", [3, 4])
def test_it_puts_doors_where_they_have_to_be_opened(level: int) -> None:
    for task in (task for task in every_task() if task["level"] == level):
        walled = ["".join("#" if mark in "ABC" else mark for mark in row) for row in task["rows"]]
        with pytest.raises(ValueError, match="No way leads from S to E"):
            Maze({**task, "rows": walled})


# --- rewards --------------------------------------------------------------------------------------


def test_it_pays_for_coming_closer_and_takes_it_back_for_turning_round() -> None:
    episode = maze()
    rewards = [go(episode, way).reward for way in ("right", "left", "right", "left")]
    assert rewards == [0.125, -0.125, 0.125, -0.125]


def test_it_pays_less_for_a_detour() -> None:
    episode = maze()
    outputs = [go(episode, way, steps=5) for way in ("down", "right", "up")]
    assert outputs[-1].finished
    assert returned(outputs) == pytest.approx(0.8 + 0.2 * 4 / 8)


def test_it_pays_as_much_for_several_cells_at_once() -> None:
    assert go(maze(), "right", steps=9).reward == 1.0


def test_it_never_returns_less_than_it_declares() -> None:
    long = ["#" * 14, "#" + "." * 10 + "SE#", "#" * 14]
    episode = maze(long)
    outputs = [go(episode, "left", steps=10), go(episode, "left")]
    assert returned(outputs) == Maze.reward_range[0]


def test_it_pays_for_keys_and_doors_that_are_needed() -> None:
    episode = maze(LOCKED, level=3)
    outputs = [go(episode, "right"), episode.pick_up(), go(episode, "right"), episode.unlock()]
    assert [output.reward for output in outputs] == pytest.approx([0.5 / 6] * 4, abs=1e-6)
    assert go(episode, "right", steps=2).finished


def test_it_ends_when_no_step_is_left() -> None:
    output = go(maze(max_steps=3), "down", steps=9)
    assert (output.finished, output.reward) == (False, -0.25)
    episode = maze(max_steps=2)
    last = go(episode, "down", steps=9)
    assert last.finished and "No step is left." in said(last)


# --- what is seen and said ------------------------------------------------------------------------


def test_it_bumps_into_walls_at_the_price_of_a_step() -> None:
    output = go(maze(), "up")
    assert said(output).startswith("You bump into the wall above you.")
    assert said(output).endswith("can go down, right. Steps left: 39.")


def test_it_says_which_door_is_locked() -> None:
    episode = maze(LOCKED, level=3)
    assert said(go(episode, "right", "right", "right")).startswith("Door A is locked.")


def test_it_shows_the_key_that_lies_here_and_what_is_carried() -> None:
    episode = maze(LOCKED, level=3)
    assert "Key a lies here. You carry no key." in said(go(episode, "right"))
    assert "You pick up key a." in (told := said(episode.pick_up()))
    assert "You carry key a." in told and "lies here" not in told


def test_it_shows_only_what_was_seen_in_the_fog() -> None:
    episode = maze(level=2)
    assert map_of(go(episode, "right"))[1:3] == ["#S@.???", "#.##???"]
    assert map_of(episode.look(Look(direction="right")))[1:3] == ["#S@..E#", "#.###.#"]


def test_it_forgets_in_the_dark_what_is_not_lit_and_draws_it_on_the_map() -> None:
    episode = maze(level=4)
    assert map_of(go(episode, "right", "right"))[1] == "??.@.??"
    assert map_of(episode.map())[1] == "#S.@.??"


def test_it_lights_the_way_for_some_steps() -> None:
    episode = maze(level=4)
    lit = [map_of(episode.light())[1], *(map_of(go(episode, "up"))[1] for _ in range(7))]
    assert lit == ["#@...E#"] * 7 + ["#@.????"]


def test_it_has_as_many_matches_as_the_task_says() -> None:
    episode = maze(level=4)
    episode.light()
    with pytest.raises(ToolError, match="no match left"):
        episode.light()


@each(
    ("level", "tools"),
    [
        (1, []),
        (2, ["look"]),
        (3, ["pick_up", "unlock"]),
        (4, ["pick_up", "unlock", "light", "map"]),
    ],
)
def test_it_offers_the_tools_of_the_level(level: int, tools: list[str]) -> None:
    assert [spec.name for spec in maze(level=level).list_task_tools().tools] == tools


def test_it_refuses_what_the_level_does_not_have() -> None:
    with pytest.raises(
        ToolError,
        match=r"light is not possible in this maze; use one of: move, "
        r"look\.",
    ):
        maze(level=2).light()


def test_it_refuses_what_cannot_be_done_without_taking_a_step() -> None:
    episode = maze(LOCKED, level=3)
    with pytest.raises(ToolError, match="There is no key where you stand"):
        episode.pick_up()
    with pytest.raises(ToolError, match="No locked door beside you fits; you carry no key"):
        episode.unlock()
    assert episode.steps_left == 40


def test_it_shows_a_picture_of_the_same_map_that_changes_with_every_move() -> None:
    episode = maze()
    prompt, told = list(episode.get_prompt()), go(episode, "right").blocks
    pictures = [
        Image.open(io.BytesIO(base64.b64decode(block.data))) for block in (prompt[-1], told[-1])
    ]  # type: ignore[union-attr]
    assert [one.size for one in pictures] == [(7 * 32, 5 * 32)] * 2
    assert pictures[0].tobytes() != pictures[1].tobytes()


def test_it_hides_in_the_picture_what_the_text_hides() -> None:
    one, other = (maze([*ROOM[:3], last, ROOM[4]], level=4) for last in ("#.....#", "#...#.#"))
    assert list(one.get_prompt())[1:] == list(other.get_prompt())[1:]


# --- edited tasks ---------------------------------------------------------------------------------


@each(
    ("rows", "reason"),
    [
        (["#S#", "#E"], "row 2 has 2 cells and row 1 has 3"),
        (["S.x.E"], "row 1 contains 'x'; use only"),
        (["S...."], "'E' stands 0 times"),
        (["SSE"], "'S' stands 2 times"),
        (["S#E"], "No way leads from S to E"),
        (["SAaE"], "No way leads from S to E"),
        (["SabcabcE"], "at most 5"),
        (["S" + "." * 2000 + "E"], "2002 x 1 cells; at most 1681"),
    ],
)
def test_it_says_what_is_wrong_with_the_rows(rows: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        maze(rows)


def test_it_needs_no_walls_at_the_border() -> None:
    assert go(maze(["S.E"]), "right", steps=2).reward == 1.0


def test_no_reward_is_minus_zero() -> None:
    episode = maze()
    episode.earned = 1e-9
    assert str(go(episode, "up").reward) == "0.0"
