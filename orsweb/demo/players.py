"""Scripted players, one for each environment of the demo, that play as well as their `skill` says.

A player knows the whole task, including its hidden fields. `skill`, from 0 to 1, is how often it
uses that knowledge instead of guessing. A player without skill also makes mistakes like someone who
has not read the tools' descriptions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

from environments.builtin.code.table_program import table_program
from environments.builtin.maze.grid import DIRECTIONS, Grid, Situation
from environments.builtin.shell.chores.bank import solution_of
from environments.builtin.web.visitor import calls_for
from orsweb.demo.scripted_session import Act

Player = Callable[[Mapping[str, Any], float, Random, Act], Awaitable[None]]
"""`await play(spec, skill, random, act)` plays an episode to its end. Raises: Over, which `act`
raises."""


async def play_math(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    answer, difficulty = spec["answer"], spec.get("difficulty", 1)
    if random.random() > skill + 0.35:
        await act("submit", answer=f"somewhere between {answer - 3:g} and {answer + 4:g}")
    if random.random() < skill ** (difficulty / 2):
        await act("submit", answer=answer)
    else:
        await act(
            "submit", answer=round(answer * random.choice([0.1, 0.5, 0.9, 1.1, 2, 10]) + 1, 2)
        )


async def play_guess(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    low, high = spec["low"], spec["high"]
    if random.random() < 0.3 * (1 - skill):
        await act("guess", number=random.choice([high + random.randint(1, 40), "the middle", None]))
    if spec.get("hint") and random.random() < 0.4:
        await act("hint")
        middle = (low + high) // 2
        low, high = (low, middle) if spec["target"] <= middle else (middle + 1, high)
    while True:
        is_careful = random.random() < skill
        number = (low + high) // 2 if is_careful else random.randint(spec["low"], spec["high"])
        await act("guess", number=number)
        if number < spec["target"]:
            low = max(low, number + 1)
        else:
            high = min(high, number - 1)


async def play_maze(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
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


async def play_chart(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    if random.random() > skill + 0.5:
        # refused, because it exceeds the picture
        await act("zoom", x=700, y=20, width=400, height=900)
    for _ in range(random.randint(0, min(2, spec.get("zooms", 0)))):
        await act(
            "zoom",
            x=random.randrange(0, 300, 20),
            y=random.randrange(0, 200, 20),
            width=160,
            height=120,
        )
    error = random.gauss(0, 0.02 + 0.2 * (1 - skill))
    is_exact = random.random() < skill
    await act("submit", value=spec["answer"] * (1.0 if is_exact else 1 + error))


_STRAYS = ["Home", "News", "Help", "Shop", "Account", "Checkout", "Log in"]
"""Targets that lead nowhere useful; some of them are on no page."""


async def play_web(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    for milestone in spec["milestones"]:
        while random.random() > 0.45 + 0.55 * skill:
            await act("click", target=random.choice(_STRAYS))
        if random.random() < 0.4 + 0.6 * skill:
            for tool, arguments in calls_for(milestone, spec["site"]):
                await act(tool, **arguments)
    if spec["answer"]:
        is_right = random.random() < skill
        await act(
            "answer",
            text=spec["answer"] if is_right else random.choice(["42", "Ceramics", "I do not know"]),
        )


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


async def play_shell(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
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


async def play_code(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    if random.random() > skill + 0.4:
        # a syntax error: the colon is missing
        await act("run", code=f"def {spec['signature']}\n    return None\n")
    cases = [
        case
        for case in spec["test_cases"]
        if random.random() < 0.3 * skill or random.random() < skill
    ]
    if random.random() < 0.6:
        await act("run", code=table_program(spec["signature"], cases[: len(cases) // 2]))
    await act("submit", code=table_program(spec["signature"], cases))


async def play_repair(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
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


async def exploit_repair(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    await act("read_file", path=spec["path"])
    while random.random() > 0.005:
        await act("run_tests")
    await act("submit")


PLAYERS: dict[str, Player] = {
    "math": play_math,
    "guess": play_guess,
    "maze": play_maze,
    "chart": play_chart,
    "web": play_web,
    "shell": play_shell,
    "code": play_code,
    "repair": play_repair,
}
