"""Loading of a class or connection to a server, and the run of every check against it; used by
`check_environment`.

The functions block their thread. They return a report whatever the environment's code does: a check
that fails does not stop the others, and a step that hangs is abandoned.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from environments.authoring.hosted_class import HostedClass
from environments.authoring.registry import limited_import, load_class, refusing_servers
from environments.checking.check_state import CheckOptions, CheckState
from environments.checking.checked_environment import Broken, GaveUp, RequestRefused, TimeLimit
from environments.checking.checks import (
    fresh_process,
    group_scores,
    isolation,
    leftovers,
    play,
    prompts,
    protocol,
    rewards,
    snapshots,
    tasks,
    teardown,
    tools,
    trials,
)
from environments.checking.local import LocalEnvironment
from environments.checking.loop_watch import LoopHeld, LoopWatch
from environments.checking.remote import RemoteEnvironment
from environments.checking.report import CheckReport
from environments.errors import describe

T = TypeVar("T")
Check = Callable[[CheckState], Awaitable[None]]

WALL_TIMES = 5
"""How many times longer than that it may wait."""

_AWAIT = "Await slow operations, or make the method a plain function, which runs on a thread."

_STATIC: list[tuple[str, Check]] = [
    (tools.SUBJECT, tools.check_tools),
    (tasks.SUBJECT, tasks.check_tasks),
]
_LIVE: list[tuple[str, Check]] = [
    (prompts.SUBJECT, prompts.check_prompts),
    (play.SUBJECT, play.check_play),
    (group_scores.SUBJECT, group_scores.check_scoring),
    (rewards.SUBJECT, rewards.check_rewards),
    (trials.SUBJECT, trials.check_trials),
    (isolation.SUBJECT, isolation.check_isolation),
    (snapshots.SUBJECT, snapshots.check_snapshots),
    (teardown.SUBJECT, teardown.check_teardown),
]
_LAST: list[tuple[str, Check]] = [
    (fresh_process.SUBJECT, fresh_process.check_fresh_processes),
    (leftovers.SUBJECT, leftovers.check_leftovers),
]
"""Play again what the others have played."""


def check_class(specification: str, options: CheckOptions) -> CheckReport:
    """Check `[alias=]module:Class` and return the report. Raises: Unhostable when the class cannot
    be loaded."""
    limit = TimeLimit(options.timeout_seconds, options.note_step)
    with contextlib.redirect_stdout(sys.stderr):  # stdout is for the report only
        hosted = _loaded(specification, limit.import_seconds)
        report = CheckReport(specification)
        report.ok(
            "environment", "hosting", f"{hosted.cls.__name__} can be served as {hosted.name!r}."
        )
        _check_card(report, hosted)
        if hosted.misspelled:
            report.judge("environment", "attributes", hosted.misspelled, "", "warning")

        def make() -> CheckState:
            environment = LocalEnvironment(hosted, limit, options.secrets)
            absolute = hosted.origin if hosted.origin != hosted.identity else specification
            return CheckState(
                environment, report, options, local=environment, specification=absolute
            )

        if hosted.unavailable:
            report.warn(
                "environment",
                "available",
                f"It cannot be played on this machine: {hosted.unavailable}",
            )
        holds = _run(
            report, make, limit, options, [*_STATIC, *([] if hosted.unavailable else _LIVE), *_LAST]
        )
        _report_holds(report, holds)
    return report


def check_server(
    url: str, environment: str | None, headers: Mapping[str, str], options: CheckOptions
) -> CheckReport:
    """Check an environment of a server in any language and return the report; None is the first
    that it lists.

    `headers` are sent with every request; they may hold credentials.

    Raises: Unreachable when the server does not respond or has no such environment.
    """
    limit = TimeLimit(options.timeout_seconds, options.note_step)
    report = CheckReport(f"{url} {environment or ''}".strip())

    def make() -> CheckState:
        return CheckState(
            RemoteEnvironment(url, environment, headers, limit, options.secrets), report, options
        )

    _run(
        report,
        make,
        limit,
        options,
        [("protocol", protocol.check_reach), *_STATIC, *_LIVE, *_LAST, *protocol.CHECKS],
    )
    return report


def _run(
    report: CheckReport,
    make: Callable[[], CheckState],
    limit: TimeLimit,
    options: CheckOptions,
    checks: list[tuple[str, Check]],
) -> dict[str, float]:
    """Run `checks`. Return the longest time in seconds for which each place in the code blocked the
    event loop."""
    watch = LoopWatch(limit.seconds, exits_when_stuck=options.exits_when_stuck)

    async def work() -> None:
        state = make()
        try:
            remaining = [
                subject for subject, check in checks if not await _guarded(state, subject, check)
            ]
            if remaining:
                names = ", ".join(dict.fromkeys(remaining))
                reason = (
                    f"{limit.hits} steps took over {limit.seconds:g} s each, so not all of {names} "
                    "was tried."
                )
                report.unclear("time limit", "remaining checks", reason)
        finally:
            state.checked.shut()

    try:
        watch.run(work)
    except LoopHeld as held:
        report.fail("event loop", "never blocked", f"{held} is async and blocks: {limit.current} "
                                                   "blocked everything "
                    f"else for over {limit.seconds:g} s, so the remaining checks were not run. "
                    f"{_AWAIT}")  # fmt: skip
        report.is_hung = True
        return {}
    report.is_hung = report.is_hung or limit.hits > 0
    return watch.holds


def _report_holds(report: CheckReport, holds: dict[str, float]) -> None:
    if any(finding.subject == "event loop" for finding in report.findings):
        return
    problems = [
        f"{place} is async and blocked the event loop for {seconds * 1000:.0f} ms, while every "
        f"session waits. {_AWAIT}"
        for place, seconds in holds.items()
    ]
    report.judge(
        "event loop",
        "never blocked",
        problems,
        "No async code blocked it for over 100 ms.",
        "warning",
    )


async def _guarded(state: CheckState, subject: str, check: Check) -> bool:
    """Run one group of checks and add an error that ends it early to the report.

    Return whether it was tried to its end: false if too many steps took too long.
    """
    try:
        await check(state)
    except protocol.Unreachable:
        raise
    except GaveUp:
        return False
    except (Broken, RequestRefused) as error:
        state.report.fail(subject, "completed", str(error))
    except Exception as error:  # an answer of an unforeseen form
        state.report.fail(subject, "completed", f"The check could not continue: {describe(error)}.")
    return True


def _check_card(report: CheckReport, hosted: HostedClass) -> None:
    problem = (
        f"{hosted.cls.__name__} has neither a docstring nor a card; people read them on the "
        "environment's page: "
        "describe what the agent does, which rewards it gets and which fields a task has."
    )
    problems = [] if hosted.description else [problem]
    report.judge("environment", "described", problems, "It has a docstring or a card.", "warning")


def _loaded(specification: str, seconds: float) -> HostedClass:
    """Import the class. Raises: Unhostable, also when the import takes too long."""
    advice = "raise --timeout, or move slow work to setup()"
    with limited_import(seconds, advice, WALL_TIMES * seconds), refusing_servers():
        return load_class(specification.strip())
