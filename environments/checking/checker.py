"""Checker: loads a class or reaches a server, runs every check against it and gives the report.

Blocking; whoever calls has a thread to spare. What the environment's code does, the report comes: a check that fails
ends alone, a step that hangs is left behind.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from environments.authoring.hosted_class import HostedClass
from environments.authoring.registry import load
from environments.checking.bench import Bench, CheckOptions
from environments.checking.checks import (
    fresh_process,
    group_scores,
    isolation,
    play,
    prompts,
    protocol,
    rewards,
    tasks,
    teardown,
    tools,
)
from environments.checking.door import Broken, DoorRefused, GaveUp, TimeLimit
from environments.checking.local import LocalDoor
from environments.checking.loop_watch import LoopHeld, LoopWatch
from environments.checking.remote import RemoteDoor
from environments.checking.report import CheckReport
from environments.errors import Unhostable, describe

T = TypeVar("T")
Check = Callable[[Bench], Awaitable[None]]

IMPORT_TIMES = 6
"""Importing a module may take so many time limits: it may load a model."""

_AWAIT = "Await what takes long, or make the method plain: plain ones run on threads."

_STATIC: list[tuple[str, Check]] = [
    (tools.SUBJECT, tools.check_tools),
    (tasks.SUBJECT, tasks.check_tasks),
    (tasks.SUBJECT, fresh_process.check_fresh_processes),
]
_LIVE: list[tuple[str, Check]] = [
    (prompts.SUBJECT, prompts.check_prompts),
    (play.SUBJECT, play.check_play),
    (group_scores.SUBJECT, group_scores.check_scoring),
    (rewards.SUBJECT, rewards.check_rewards),
    (isolation.SUBJECT, isolation.check_isolation),
    (teardown.SUBJECT, teardown.check_teardown),
]


def check_class(specification: str, options: CheckOptions) -> CheckReport:
    """The report on `[alias=]module:Class`. Raises: Unhostable when there is no class that could be checked."""
    limit = TimeLimit(options.timeout_seconds)
    with contextlib.redirect_stdout(sys.stderr):  # the report has stdout for itself
        hosted = _loaded(specification, limit.seconds * IMPORT_TIMES)
        report = CheckReport(specification)
        report.ok("environment", "hosting", f"{hosted.cls.__name__} can be served as {hosted.name!r}.")
        _check_card(report, hosted)

        def make() -> Bench:
            door = LocalDoor(hosted, limit, options.secrets)
            return Bench(door, report, options, local=door, specification=specification)

        if hosted.unavailable:
            report.warn("environment", "available", f"It cannot be played on this machine: {hosted.unavailable}")
        holds = _run(report, make, limit, options, [*_STATIC, *([] if hosted.unavailable else _LIVE)])
        _tell_holds(report, holds)
    return report


def check_server(url: str, environment: str | None, api_key: str, options: CheckOptions) -> CheckReport:
    """The report on an environment of a server in any language; None: the first that it lists.

    Raises: Unreachable when the server does not answer or has no such environment.
    """
    limit = TimeLimit(options.timeout_seconds)
    report = CheckReport(f"{url} {environment or ''}".strip())

    def make() -> Bench:
        return Bench(RemoteDoor(url, environment, api_key, limit, options.secrets), report, options)

    _run(report, make, limit, options, [("protocol", protocol.check_reach), *_STATIC, *_LIVE, *protocol.CHECKS])
    return report


def _run(
    report: CheckReport,
    make: Callable[[], Bench],
    limit: TimeLimit,
    options: CheckOptions,
    checks: list[tuple[str, Check]],
) -> dict[str, float]:
    """Run `checks`; the longest holds of the loop, by place."""
    watch = LoopWatch(limit.seconds, exits_when_stuck=options.exits_when_stuck)

    async def work() -> None:
        bench = make()
        try:
            for subject, check in checks:
                await _guarded(bench, subject, check)
        finally:
            bench.door.shut()

    try:
        watch.run(work)
    except LoopHeld as held:
        report.fail("event loop", "never held", f"{held} is async and blocks: {limit.current} held up everything else "
                    f"for over {limit.seconds:g} s, so nothing more was checked. {_AWAIT}")  # fmt: skip
        report.is_hung = True
        return {}
    report.is_hung = report.is_hung or limit.hits > 0
    return watch.holds


def _tell_holds(report: CheckReport, holds: dict[str, float]) -> None:
    if any(finding.subject == "event loop" for finding in report.findings):
        return
    problems = [
        f"{place} is async and held the event loop for {seconds * 1000:.0f} ms, in which every session waits. {_AWAIT}"
        for place, seconds in holds.items()
    ]
    report.judge("event loop", "never held", problems, "No async code held it for over 100 ms.", "warning")


async def _guarded(bench: Bench, subject: str, check: Check) -> None:
    """Run one group; what ends it early is a finding."""
    try:
        await check(bench)
    except protocol.Unreachable:
        raise
    except GaveUp as error:
        bench.report.skip(subject, "the rest", str(error))
    except (Broken, DoorRefused) as error:
        bench.report.fail(subject, "carried through", str(error))
    except Exception as error:  # the other side answered what nobody thought of
        bench.report.fail(subject, "carried through", f"The check could not go on: {describe(error)}.")


def _check_card(report: CheckReport, hosted: HostedClass) -> None:
    silent = (
        f"{hosted.cls.__name__} has no docstring; people read it on the environment's page: say what the agent does, "
        "what it earns and what a task holds."
    )
    problems = [] if (hosted.cls.__doc__ or "").strip() else [silent]
    report.judge("environment", "described", problems, "Its docstring says what it is.", "warning")


def _loaded(specification: str, seconds: float) -> HostedClass:
    """Import in a thread, which an endless import holds up for ever. Raises: Unhostable."""
    results: list[HostedClass] = []
    errors: list[Unhostable] = []

    def work() -> None:
        try:
            results.extend(load([specification]))
        except Unhostable as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="import", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise Unhostable(
            f"{specification!r} was not imported within {seconds:g} s; do the work in setup(), or allow more with "
            "--timeout."
        )
    return results[0]
