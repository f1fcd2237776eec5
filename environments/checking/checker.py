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

from environments.authoring.registry import limited_import, load_class, refusing_servers
from environments.checking.check_state import CheckOptions, CheckState
from environments.checking.checked_environment import Broken, GaveUp, RequestRefused, TimeLimit
from environments.checking.checks import (
    fresh_process,
    isolation,
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
"""How many times longer than its CPU time the import of a module may wait."""

_AWAIT = "Await slow operations, or make the method a plain function, which runs on a thread."

_STATIC: list[tuple[str, Check]] = [
    ("tools", tools.check_tools),
    ("tasks", tasks.check_tasks),
]
_LIVE: list[tuple[str, Check]] = [
    ("prompts", prompts.check_prompts),
    ("play", play.check_play),
    ("play", rewards.check_scoring),
    ("rewards", rewards.check_rewards),
    ("trials", trials.check_trials),
    ("sessions", isolation.check_isolation),
    ("snapshots", snapshots.check_snapshots),
    ("teardown", teardown.check_teardown),
]
_LAST: list[tuple[str, Check]] = [
    ("processes", fresh_process.check_fresh_processes),
    ("teardown", teardown.check_leftovers),
]
"""Play again what the others have played."""


def check_class(specification: str, options: CheckOptions) -> CheckReport:
    """Check `[alias=]module:Class` and return the report. Raises: Unhostable when the class cannot
    be loaded."""
    limit = TimeLimit(options.timeout_seconds, options.note_step)
    with contextlib.redirect_stdout(sys.stderr):  # stdout is for the report only
        advice = "raise --timeout, or move slow work to setup()"
        wall_seconds = WALL_TIMES * limit.import_seconds
        with limited_import(limit.import_seconds, advice, wall_seconds), refusing_servers():
            hosted_class = load_class(specification.strip())
        name = hosted_class.cls.__name__
        report = CheckReport(specification, "environment")
        report.ok("hosting", f"{name} can be served as {hosted_class.name!r}.")
        report.expect(
            "described",
            bool(hosted_class.description),
            f"{name} has neither a docstring nor a card; people read them on the environment's "
            "page: describe what the agent does, which rewards it gets and which fields a task "
            "has.",
            "It has a docstring or a card.",
            "warning",
        )
        if hosted_class.misspelled:
            report.judge("attributes", hosted_class.misspelled, "", "warning")

        def make() -> CheckState:
            environment = LocalEnvironment(hosted_class, limit, options.secrets)
            absolute = (
                hosted_class.origin
                if hosted_class.origin != hosted_class.identity
                else specification
            )
            return CheckState(
                environment, report, options, local=environment, specification=absolute
            )

        if hosted_class.unavailable:
            report.warn(
                "available", f"It cannot be played on this machine: {hosted_class.unavailable}"
            )
        live = [] if hosted_class.unavailable else _LIVE
        holds = _run(report, make, limit, options, [*_STATIC, *live, *_LAST])
        if holds is not None:
            problems = [
                f"{place} is async and blocked the event loop for {seconds * 1000:.0f} ms, while "
                f"every session waits. {_AWAIT}"
                for place, seconds in holds.items()
            ]
            report.subject = "event loop"
            report.judge(
                "never blocked", problems, "No async code blocked it for over 100 ms.", "warning"
            )
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
) -> dict[str, float] | None:
    """Run `checks`. Return the longest time in seconds for which each place in the code blocked the
    event loop; None if one has blocked it for good."""
    watch = LoopWatch(limit.seconds, exits_when_stuck=options.exits_when_stuck)

    async def work() -> None:
        state = make()
        try:
            remaining = dict[str, None]()
            for report.subject, check in checks:
                try:
                    await check(state)
                except protocol.Unreachable:
                    raise
                except GaveUp:  # too many steps took too long
                    remaining[report.subject] = None
                except (Broken, RequestRefused) as error:
                    report.fail("completed", str(error))
                except Exception as error:  # an answer of an unforeseen form
                    report.fail("completed", f"The check could not continue: {describe(error)}.")
            if remaining:
                names = ", ".join(remaining)
                reason = (
                    f"{limit.hits} steps took over {limit.seconds:g} s each, so not all of {names} "
                    "was tried."
                )
                report.subject = "time limit"
                report.unclear("remaining checks", reason)
        finally:
            state.environment.shut()

    try:
        watch.run(work)
    except LoopHeld as held:
        report.subject = "event loop"
        report.fail(
            "never blocked",
            f"{held} is async and blocks: {limit.current} blocked everything else for over "
            f"{limit.seconds:g} s, so the remaining checks were not run. {_AWAIT}",
        )
        report.is_hung = True
        return None
    report.is_hung = report.is_hung or limit.hits > 0
    return watch.holds
