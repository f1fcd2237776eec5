"""Checks that sessions do not affect each other: the same calls have the same results in a session alone, in a second
one and while other sessions play. Also checks that sessions open without secrets.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from environments.checking.bench import Bench, PlayedEpisode, PlayedMove, same
from environments.checking.door import Broken, CallAnswer, DoorRefused, DoorSession, leave

SUBJECT = "sessions"
MAX_MOVES = 8
"""Calls of an episode that are repeated."""
COPIES = 3
"""Sessions that play each of the two episodes at the same time."""
ROUNDS = 3
SWITCH_SECONDS = 1e-5
"""Interval at which Python switches threads while sessions run at the same time, short so that races show."""


async def check_isolation(bench: Bench) -> None:
    await _check_secrets(bench)
    scripts = _scripts(bench.episodes)
    if not scripts:
        bench.report.skip(SUBJECT, "alone and together", "No episode was played that could be repeated.")
        return
    first = [await _replay(bench, script) for script in scripts]
    second = [await _replay(bench, script) for script in scripts]
    again = [text for n, script in enumerate(scripts) if (text := _difference(script, first[n], second[n]))]
    bench.report.judge(
        SUBJECT,
        "repeatable",
        [f"{text} when it was repeated; seed randomness with the task, and keep state on self." for text in again],
        "The same calls have the same results in a second session.",
        "warning",
    )
    if again:
        reason = "Not compared, because sessions that are played one after another already differ."
        return bench.report.skip(SUBJECT, "side by side", reason)
    await _check_side_by_side(bench, scripts, first)


async def _check_side_by_side(bench: Bench, scripts: list[PlayedEpisode], alone: list[list[CallAnswer]]) -> None:
    problems: list[str] = []
    for _ in range(ROUNDS):
        with _frequent_switches():
            together = await _replay_together(bench, scripts * COPIES)
        for number, answers in enumerate(together):
            script = scripts[number % len(scripts)]
            if text := _difference(script, alone[number % len(scripts)], answers):
                problems.append(
                    f"{text} while other sessions played: they share state, or the code is not thread-safe. Keep "
                    "state on self, not on the class or the module."
                )
    sessions = COPIES * len(scripts)
    bench.report.judge(SUBJECT, "side by side", problems, f"{sessions} sessions at once have the results of one alone.")


def _scripts(episodes: Sequence[PlayedEpisode]) -> list[PlayedEpisode]:
    """Return up to two episodes of different tasks without failed calls, shortened to `MAX_MOVES` calls."""
    found: dict[str, PlayedEpisode] = {}
    for played in sorted(episodes, key=lambda one: -len(one.moves)):
        if played.moves and all(move.answer.status != "failed" for move in played.moves[:MAX_MOVES]):
            found.setdefault(played.sample.label, PlayedEpisode(played.sample, played.moves[:MAX_MOVES]))
    return list(found.values())[:2]


async def _replay(bench: Bench, script: PlayedEpisode) -> list[CallAnswer]:
    """Return the results of the script's calls in a new session. Raises: Broken, DoorRefused."""
    seat = await bench.door.open(script.sample)
    try:
        return await _answers(seat, script)
    finally:
        await leave(seat)


async def _replay_together(bench: Bench, scripts: list[PlayedEpisode]) -> list[list[CallAnswer]]:
    """Return the results of each script's calls, with all sessions open before the first call.

    Raises: Broken, DoorRefused.
    """
    seats: list[DoorSession] = []
    try:
        opening = [bench.door.open(script.sample) for script in scripts]
        for opened in await asyncio.gather(*opening, return_exceptions=True):
            if isinstance(opened, BaseException):
                raise opened
            seats.append(opened)
        return await asyncio.gather(*map(_answers, seats, scripts))
    finally:
        await asyncio.gather(*map(leave, seats))


async def _answers(seat: DoorSession, script: PlayedEpisode) -> list[CallAnswer]:
    return [await seat.call(move.tool, move.arguments) for move in script.moves]


def _difference(script: PlayedEpisode, one: list[CallAnswer], other: list[CallAnswer]) -> str:
    """Return the first difference as the beginning of a sentence, or an empty text."""
    for number, (move, left, right) in enumerate(zip(script.moves, one, other, strict=True)):
        if not _is_same(left, right):
            return f"Call {number + 1} of {script.sample.label}, {_label(move)}, had a different result"
    return ""


def _is_same(left: CallAnswer, right: CallAnswer) -> bool:
    return left.status == right.status and same(left.output, right.output) and left.error == right.error


def _label(move: PlayedMove) -> str:
    return f"{move.tool!r}"


@contextmanager
def _frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


async def _check_secrets(bench: Bench) -> None:
    check = "opens without secrets"
    if bench.local is None or not bench.samples:
        return
    if not bench.local.secrets:
        return bench.report.ok(SUBJECT, check, "Sessions open without secrets; none was given.")
    try:
        await leave(await bench.local.open_with(bench.samples[0], {}))
    except (Broken, DoorRefused) as error:
        text = (
            f"Sessions do not open without secrets ({error}) Read secrets when they are needed, and name a missing one."
        )
        return bench.report.warn(SUBJECT, check, text)
    bench.report.ok(SUBJECT, check, "Sessions open with and without the given secrets.")
