"""Checks that sessions do not affect each other: the same calls have the same results in a session
alone, in a second one and while other sessions play. Also checks that sessions open without
secrets.
"""

from __future__ import annotations

import asyncio
import sys

from environments.checking.check_state import CheckState, PlayedEpisode, same_answer
from environments.checking.checked_environment import (
    Broken,
    CallAnswer,
    CheckedSession,
    RequestRefused,
    closing,
    leave,
)

MAX_MOVES = 8
"""Maximum number of calls of an episode that are repeated."""
COPIES = 3
"""Number of sessions that play each of the two episodes at the same time."""
ROUNDS = 3
"""How often they do; once if each has a process of its own, where they share nothing but files."""
SWITCH_SECONDS = 1e-5
"""Interval at which Python switches threads while sessions run at the same time, short so that
races show."""


async def check_isolation(state: CheckState) -> None:
    await _check_secrets(state)
    by_task: dict[str, PlayedEpisode] = {}
    for episode in sorted(state.episodes, key=lambda episode: -len(episode.accepted)):
        if moves := episode.accepted[:MAX_MOVES]:
            by_task.setdefault(episode.sample.label, PlayedEpisode(episode.sample, moves))
    scripts = state.scripts = list(by_task.values())[:2]
    if not scripts:
        return state.report.unclear("alone and together", state.refusal)
    first = [await _replay(state, script) for script in scripts]
    if all(answer.status == "refused" for answers in first for answer in answers):
        text = (
            "All calls were refused when they were repeated, such as the first: "
            f"{first[0][0].error}"
        )
        return state.report.unclear("alone and together", text)
    second = [await _replay(state, script) for script in scripts]
    again = [
        text
        for n, script in enumerate(scripts)
        if (text := _difference(script, first[n], second[n]))
    ]
    state.report.judge(
        "repeatable",
        [
            f"{text} when it was repeated; seed randomness with the task, and keep state on self."
            for text in again
        ],
        "The same calls have the same results in a second session.",
        "warning",
    )
    state.is_repeatable = not again
    if again:
        reason = "Not compared, because sessions that are played one after another already differ."
        return state.report.skip("side by side", reason)
    await _check_side_by_side(state, scripts, first)


async def _check_side_by_side(
    state: CheckState, scripts: list[PlayedEpisode], alone: list[list[CallAnswer]]
) -> None:
    problems: list[str] = []
    most = state.local.hosted.sessions_at_once if state.local else None
    if most == 1:
        return state.report.skip("side by side", "The class bears one session at once.")
    playing = (scripts * COPIES)[:most]
    are_apart = state.local is not None and state.local.hosted.isolation == "session"
    for _ in range(1 if are_apart else ROUNDS):
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            together = await _replay_together(state, playing)
        finally:
            sys.setswitchinterval(before)
        for number, answers in enumerate(together):
            script = scripts[number % len(scripts)]
            if text := _difference(script, alone[number % len(scripts)], answers):
                problems.append(
                    f"{text} while other sessions played: they share state, or the code is not "
                    "thread-safe. Keep "
                    "state on self, not on the class or the module."
                )
    sessions, calls = len(playing), max(len(script.moves) for script in scripts)
    text = f"{sessions} sessions at once, of up to {calls} calls, have the results of one alone."
    state.report.judge("side by side", problems, text)


async def _replay(state: CheckState, script: PlayedEpisode) -> list[CallAnswer]:
    """Return the results of the script's calls in a new session. Raises: Broken, RequestRefused."""
    async with closing(state.environment.open(script.sample)) as seat:
        return await _answers(seat, script)


async def _replay_together(
    state: CheckState, scripts: list[PlayedEpisode]
) -> list[list[CallAnswer]]:
    """Return the results of each script's calls, with all sessions open before the first call.

    Raises: Broken, RequestRefused.
    """
    seats: list[CheckedSession] = []
    try:
        opening = [state.environment.open(script.sample) for script in scripts]
        for session in await asyncio.gather(*opening, return_exceptions=True):
            if isinstance(session, BaseException):
                raise session
            seats.append(session)
        return await asyncio.gather(*map(_answers, seats, scripts))
    finally:
        await asyncio.gather(*map(leave, seats))


async def _answers(seat: CheckedSession, script: PlayedEpisode) -> list[CallAnswer]:
    return [await seat.call(move.tool, move.arguments) for move in script.moves]


def _difference(script: PlayedEpisode, first: list[CallAnswer], second: list[CallAnswer]) -> str:
    """Return the first difference as the beginning of a sentence, or an empty text."""
    for number, (move, before, after) in enumerate(zip(script.moves, first, second, strict=True)):
        if not same_answer(before, after):
            return (
                f"Call {number + 1} of {script.sample.label}, {move.tool!r}, had a different result"
            )
    return ""


async def _check_secrets(state: CheckState) -> None:
    check = "opens without secrets"
    if state.local is None or not state.samples:
        return
    if not state.local.secrets:
        return state.report.ok(check, "Sessions open without secrets; none was given.")
    try:
        await leave(await state.local.open_with(state.samples[0], {}))
    except (Broken, RequestRefused) as error:
        text = (
            f"Sessions do not open without secrets ({error}) Read secrets when they are needed, "
            "and name a missing one."
        )
        return state.report.warn(check, text)
    state.report.ok(check, "Sessions open with and without the given secrets.")
