"""Suites in tests, and what models have played of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from environments.models import Environment, Split, Task
from environments.scoring.definition import Definition, definition_of
from episodes.models import Suite, SuiteVersion
from episodes.suites.versions import NewMember, Score, publish
from tests.episodes.ended import count_statistics, end_episode
from tests.stored import make_environment, make_run, make_split, make_task


def make_tasks(environment: str, count: int) -> list[Task]:
    row = make_environment(environment)
    return [make_task(environment=row) for _ in range(count)]


def member(split: Split, weight: float = 1.0, definition: Definition | None = None) -> NewMember:
    return NewMember(split, definition or definition_of(split.environment), weight)


def make_suite(*members: NewMember, name: str = "core", score: Score = "success") -> SuiteVersion:
    """Publish the next version of a suite, which is new unless one has the name."""
    suite = Suite.objects.filter(name=name).first() or Suite(name=name)
    return publish(suite, score, members, "ada")


def split_of(environment: str, count: int, name: str = "test") -> Split:
    return make_split(
        *make_tasks(environment, count), name=name, environment=make_environment(environment)
    )


def tasks_of(split: Split) -> list[Task]:
    return [entry.task for entry in split.entries.order_by("position")]


def attempt(model: str, tasks: Sequence[Task], rewards: Sequence[float], **values: Any) -> None:
    """Let a model attempt each task with the reward at its place, in a run of its name."""
    for task, reward in zip(tasks, rewards, strict=True):
        end_episode(
            reward,
            task=task,
            environment=task.environment,
            model=model,
            run=make_run(f"of {model}"),
            **values,
        )


def core() -> SuiteVersion:
    """Return a suite of four tasks of `math` and two of `maze`, which counts twice, played by three
    models.

    `weak` and `strong` have played all tasks, the first one of them twice, `partial` lacks those of
    `maze`.
    """
    math, maze = split_of("math", 4), split_of("maze", 2)
    version = make_suite(member(math), member(maze, 2.0))
    attempt("weak", tasks_of(math), (1.0, 0.0, 0.0, 0.0))
    attempt("weak", tasks_of(math)[:1], (0.0,))
    attempt("weak", tasks_of(maze), (0.0, 1.0))
    attempt("strong", tasks_of(math), (1.0, 1.0, 1.0, 0.0))
    attempt("strong", tasks_of(maze), (1.0, 1.0))
    attempt("partial", tasks_of(math), (1.0, 1.0, 1.0, 1.0))
    attempt("partial", make_tasks("maze", 1), (1.0,))
    count_statistics()
    return version


def environment_of(version: SuiteVersion) -> Environment:
    return version.members.get(number=1).environment


def broken_core() -> tuple[SuiteVersion, list[Task]]:
    """Return `core()`, except that the environment fails at the last task of `math` for everybody
    and at the one before it for `weak` alone; and the two tasks."""
    math, maze = split_of("math", 4), split_of("maze", 2)
    *tasks, sometimes, always = tasks_of(math)
    version = make_suite(member(math), member(maze, 2.0))
    for model, rewards in (("weak", (1.0, 0.0)), ("strong", (1.0, 1.0)), ("steady", (1.0, 0.0))):
        attempt(model, tasks, rewards)
        attempt(model, tasks_of(maze), rewards)
        attempt(model, [always], (None,), cause="env_error")
    attempt("strong", [sometimes], (0.0,))
    attempt("steady", [sometimes], (0.0,))
    attempt("weak", [sometimes, always], (None, None), cause="setup_failed")
    count_statistics()
    return version, [sometimes, always]
