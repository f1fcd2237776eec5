"""Checks that play on purpose: the class's oracle, an agent that does nothing, and the class's
exploits.

Solving a task has to earn the top of the declared range. Doing nothing, and everything that the
class lists as an exploit, may earn no more than the bottom of the range, or 0 if the range starts
below 0.

Doing nothing means: an empty final message, ending the episode at once by a tool that needs no
input, or calling such
a tool again and again while its output stays the same.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from environments.checking.check_state import CheckState, PlayedEpisode, PlayedMove
from environments.checking.checked_environment import (
    Broken,
    RequestRefused,
    Sample,
    closing,
)
from environments.checking.checks.rewards import TOLERANCE, bounds_of, return_of
from environments.checking.local import LocalEnvironment
from environments.display.numbers import plain
from environments.errors import shorten
from environments.scoring.returns import RETURNS
from environments.wire import value_json

MAX_CALLS = 1000
"""Calls of an oracle or an exploit after which it is ended."""
MAX_IDLE_CALLS = 5
MAX_EXPLOITED = 2
"""Sampled tasks on which exploits are played; the oracle plays all of them, and so does doing
nothing."""
MAX_SHOWN_CALLS = 6
_CHECK_THE_CLASS = "Check the class itself, as module:Class, where its code is."


@dataclass(frozen=True, slots=True)
class Pay:
    """What the environment declares about the return of an episode."""

    low: float
    high: float
    definition: str

    @property
    def unearned(self) -> float:
        """Return the most that an episode may return in which nothing was achieved."""
        return max(self.low, 0.0)

    def of(self, moves: list[PlayedMove]) -> float:
        return return_of(
            [move.answer.reward for move in moves if move.answer.reward is not None],
            self.definition,
        )


async def check_trials(state: CheckState) -> None:
    if not state.samples:
        return state.report.skip("oracle", "No session could be opened.")
    cls = state.local.hosted.cls if state.local else None
    bounds, definition = (
        bounds_of(getattr(cls, "reward_range", (0.0, 1.0))),
        getattr(cls, "default_return", "sum"),
    )
    if bounds is None or definition not in RETURNS:
        return state.report.skip(
            "oracle", "The declared rewards are invalid, so returns cannot be judged."
        )
    pay = Pay(*bounds, definition)
    await _check_oracle(state, pay)
    await _check_doing_nothing(state, pay)
    await _check_exploits(state, pay)


async def _check_oracle(state: CheckState, pay: Pay) -> None:
    check = "oracle"
    if state.local is None:
        return state.report.skip(
            check, f"The protocol does not transmit what solves a task. {_CHECK_THE_CLASS}"
        )
    if not declares(state.local, check):
        advice = "declare one to check that a solved task returns the top of the range"
        return state.report.skip(check, f"The class has no oracle(); {advice}.")
    problems, lengths = [], set[int]()
    for sample in state.samples:
        episode = await played(state.local, sample, MAX_CALLS)
        problems += _oracle_problems(episode, pay)
        lengths.add(len(episode.moves))
    places = ", ".join(sample.label for sample in state.samples)
    calls = (
        f"{' to '.join(map(str, sorted({min(lengths), max(lengths)})))} "
        f"call{'' if lengths == {1} else 's'}"
    )
    top = plain(pay.high)
    fine = (
        f"The oracle returns {top}, the top of {plain(pay.low)} to {top}, with {calls} in {places}."
    )
    state.report.judge(check, problems, fine)


def _oracle_problems(episode: PlayedEpisode, pay: Pay) -> list[str]:
    where = f"in {episode.sample.label}"
    for number, move in enumerate(episode.moves, 1):
        if move.answer.status != "ok":
            reason = move.answer.error or move.answer.reason
            return [
                f"Call {number} of the oracle {where}, {_call(move)}, was not answered: {reason}"
            ]
    if abs((value := pay.of(episode.moves)) - pay.high) <= TOLERANCE:
        return []
    side = "below" if value < pay.high else "above"
    return [
        f"The oracle returned {plain(value)} {where}, {side} the top of {plain(pay.low)} to "
        f"{plain(pay.high)}: "
        f"{_calls(episode.moves)}. Correct the rewards, reward_range or the oracle."
    ]


async def _check_exploits(state: CheckState, pay: Pay) -> None:
    check = "exploits"
    if state.local is None or not declares(state.local, check):
        reason = (
            "The class lists no exploits()."
            if state.local
            else f"The protocol does not transmit exploits. {_CHECK_THE_CLASS}"
        )
        return state.report.skip(check, reason)
    problems, refusals, names, most = [], [], list[str](), plain(pay.unearned)
    for sample in state.samples[:MAX_EXPLOITED]:
        async with closing(state.local.open(sample)) as seat:
            names = await seat.exploits()
        for name in names:
            moves = (await played(state.local, sample, MAX_CALLS, name)).moves
            if moves and all(move.answer.status == "refused" for move in moves):
                refusals.append(
                    f"All calls of the exploit {name!r} were refused in {sample.label}: "
                    f"{_call(moves[0])}."
                )
            if (value := pay.of(moves)) > pay.unearned + TOLERANCE:
                problems.append(
                    f"The exploit {name!r} returned {plain(value)} in {sample.label}, more than "
                    f"the {most} that "
                    f"nothing achieved may return: {_calls(moves)}. Pay only for what solves the "
                    "task."
                )
    if refusals and not problems:
        return state.report.unclear(check, " ".join(refusals))
    if not names:
        return state.report.skip(check, "The class lists no exploits.")
    words = ", ".join(names)
    state.report.judge(check, problems, f"None returns more than {most}: {words}.")


def declares(local: LocalEnvironment, method: str) -> bool:
    """Return whether the class has the method itself, and not a tool or a value of that name."""
    is_method = local.hosted.overrides(method) and callable(getattr(local.hosted.cls, method))
    return is_method and method not in local.hosted.tools.by_name


async def played(
    local: LocalEnvironment, sample: Sample, most: int, exploit: str | None = None
) -> PlayedEpisode:
    """Play at most `most` calls of the oracle, or of an exploit. Raises: Broken, RequestRefused."""
    moves: list[PlayedMove] = []
    async with closing(local.open(sample)) as seat:
        async for tool, arguments in seat.calls(exploit):
            moves.append(PlayedMove(tool, arguments, await seat.call(tool, arguments)))
            if moves[-1].answer.is_finished or len(moves) == most:
                break
    return PlayedEpisode(sample, moves)


# --- doing nothing --------------------------------------------------------------------------------


async def _check_doing_nothing(state: CheckState, pay: Pay) -> None:
    problems, ways, most = [], dict[str, None](), plain(pay.unearned)
    for sample in state.samples:
        for tool, arguments in await _idle_calls(state, sample):
            ways[tool] = None
            moves = await _idled(state, sample, tool, arguments)
            if (value := pay.of(moves)) > pay.unearned + TOLERANCE:
                problems.append(
                    f"Doing nothing returned {plain(value)} in {sample.label}, more than "
                    f"{most}: {_calls(moves)}. "
                    "Pay for changes that bring the task closer to its solution."
                )
    how = f"without a call{', or with only ' + ', '.join(ways) if ways else ''}"
    fine = f"Doing nothing, {how}, returns at most {most}."
    state.report.judge("doing nothing", problems, fine, "failed" if state.local else "warning")


async def _idle_calls(state: CheckState, sample: Sample) -> list[tuple[str, dict[str, Any]]]:
    """Return each call that can be made without any thought: the tools that need no input, and an
    empty message."""
    async with closing(state.environment.open(sample)) as seat:
        listing = await seat.tools()
    calls: list[tuple[str, dict[str, Any]]] = [
        (tool["name"], {})
        for tool in listing["tools"]
        if not (tool["input_schema"] or {}).get("required")
    ]
    if ending := listing.get("terminal_tool"):
        calls.append((ending["name"], {ending["arg"]: ""} if ending.get("arg") else {}))
    return calls


async def _idled(
    state: CheckState, sample: Sample, tool: str, arguments: dict[str, Any]
) -> list[PlayedMove]:
    """Call the tool until the output differs. Return the calls that achieved nothing: all but the
    first, or one that ended the episode.
    """
    moves: list[PlayedMove] = []
    async with closing(state.environment.open(sample)) as seat:
        with suppress(Broken, RequestRefused):  # reported by the checks of play
            while len(moves) < MAX_IDLE_CALLS:
                moves.append(PlayedMove(tool, arguments, await seat.call(tool, arguments)))
                if (
                    moves[-1].answer.output is None
                    or moves[-1].answer.is_finished
                    or _blocks(moves[-1]) != _blocks(moves[0])
                ):
                    break
    repeats = [move for move in moves[1:] if _blocks(move) == _blocks(moves[0])]
    return moves if len(moves) == 1 and moves[0].answer.is_finished else repeats


def _blocks(move: PlayedMove) -> Any:
    return (move.answer.output or {}).get("blocks")


def _calls(moves: list[PlayedMove]) -> str:
    """Return the calls with their rewards, of many the first and the last ones."""
    calls = [
        f"{_call(move)} {'no reward' if move.answer.reward is None else plain(move.answer.reward)}"
        for move in moves
    ]
    if (more := len(calls) - MAX_SHOWN_CALLS) > 0:
        calls[MAX_SHOWN_CALLS // 2 : -MAX_SHOWN_CALLS // 2] = [f"{more} more"]
    return ", ".join(calls) or "no call"


def _call(move: PlayedMove) -> str:
    return f"{move.tool} {shorten(value_json(move.arguments), 80)}"
