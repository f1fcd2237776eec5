"""Checks that sessions keep out of each other's way: the same actions have the same results alone, again and beside
others; and that a class runs without what only one machine has (secrets).
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
"""Calls that are made of an episode when it is played again."""
COPIES = 3
"""Sessions that play each of the two episodes, side by side."""
ROUNDS = 3
SWITCH_SECONDS = 1e-5
"""How often Python changes threads while sessions run side by side; races come out sooner."""


async def check_isolation(bench: Bench) -> None:
    await _check_secrets(bench)
    scripts = _scripts(bench.episodes)
    if not scripts:
        bench.report.skip(SUBJECT, "alone and side by side", "No episode was played that could be played again.")
        return
    first = [await _replay(bench, script) for script in scripts]
    second = [await _replay(bench, script) for script in scripts]
    again = [text for n, script in enumerate(scripts) if (text := _difference(script, first[n], second[n]))]
    bench.report.judge(
        SUBJECT,
        "same again",
        [f"{text} when it was played again; seed randomness with the task, and keep state on self." for text in again],
        "The same calls have the same results in a second session.",
        "warning",
    )
    if again:
        told = "Not compared, because sessions that are played one by one differ already."
        return bench.report.skip(SUBJECT, "side by side", told)
    await _check_side_by_side(bench, scripts, first)


async def _check_side_by_side(bench: Bench, scripts: list[PlayedEpisode], alone: list[list[CallAnswer]]) -> None:
    problems: list[str] = []
    for _ in range(ROUNDS):
        with _quick_switches():
            beside = await _replay_together(bench, scripts * COPIES)
        for number, answers in enumerate(beside):
            script = scripts[number % len(scripts)]
            if text := _difference(script, alone[number % len(scripts)], answers):
                problems.append(
                    f"{text} beside other sessions: they share state, or its code is not safe in threads. Keep state "
                    "on self, not on the class or the module."
                )
    sessions = COPIES * len(scripts)
    bench.report.judge(SUBJECT, "side by side", problems, f"{sessions} sessions at once have the results of one alone.")


def _scripts(episodes: Sequence[PlayedEpisode]) -> list[PlayedEpisode]:
    """Up to two episodes of different tasks whose calls were answered, shortened."""
    found: dict[str, PlayedEpisode] = {}
    for played in sorted(episodes, key=lambda one: -len(one.moves)):
        if played.moves and all(move.answer.status != "failed" for move in played.moves[:MAX_MOVES]):
            found.setdefault(played.sample.label, PlayedEpisode(played.sample, played.moves[:MAX_MOVES]))
    return list(found.values())[:2]


async def _replay(bench: Bench, script: PlayedEpisode) -> list[CallAnswer]:
    """The answers to the script's calls in a session of its own. Raises: Broken, Refused."""
    seat = await bench.door.open(script.sample)
    try:
        return await _answers(seat, script)
    finally:
        await leave(seat)


async def _replay_together(bench: Bench, scripts: list[PlayedEpisode]) -> list[list[CallAnswer]]:
    """The answers to each script's calls; all sessions are open before the first call. Raises: Broken, Refused."""
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
    """What differs first, as the beginning of a sentence; empty: nothing."""
    for number, (move, left, right) in enumerate(zip(script.moves, one, other, strict=True)):
        if not _is_same(left, right):
            return f"Call {number + 1} of {script.sample.label}, {_label(move)}, had another result"
    return ""


def _is_same(left: CallAnswer, right: CallAnswer) -> bool:
    return left.status == right.status and same(left.output, right.output) and left.error == right.error


def _label(move: PlayedMove) -> str:
    return f"{move.tool!r}"


@contextmanager
def _quick_switches() -> Iterator[None]:
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
        return bench.report.ok(SUBJECT, check, "Sessions open although no secret was given.")
    try:
        await leave(await bench.local.open_with(bench.samples[0], {}))
    except (Broken, DoorRefused) as error:
        text = f"Without secrets no session opens ({error}) Read them where they are needed, and say what is missing."
        return bench.report.warn(SUBJECT, check, text)
    bench.report.ok(SUBJECT, check, "Sessions open with and without the secrets that were given.")
