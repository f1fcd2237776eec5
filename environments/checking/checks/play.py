"""Checks that play: episodes with generated inputs, invalid inputs that must be refused, calls
after the end."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

from environments.checking.blocks import problem_of, text_of
from environments.checking.check_state import ADVICE, CheckState, PlayedEpisode, PlayedMove
from environments.checking.checked_environment import (
    Broken,
    CallAnswer,
    CheckedSession,
    GaveUp,
    RequestRefused,
    Sample,
    Slow,
    leave,
)
from environments.checking.checks.trials import declares, oracle_episode, scripted
from environments.checking.input_texts import Seen
from environments.checking.inputs import Inputs, Unproducible, choices
from environments.errors import shorten
from environments.wire import value_json

SUBJECT = "play"
MAX_SHOWN_CHARACTERS = 120
_OF_INPUTS = ("ValueError", "KeyError", "IndexError", "LookupError", "ZeroDivisionError")
"""Exceptions that an agent's input may cause. Others are bugs of the author."""
NO_SUCH_TOOL = "no_such_tool_of_this_environment"


async def check_play(state: CheckState) -> None:
    if not state.samples:
        return state.report.skip(SUBJECT, "episodes", "No session could be opened.")
    faults: list[str] = []
    late: list[str] = []
    hung: set[str] = set()
    for number in range(state.options.episodes):
        sample = state.samples[number % len(state.samples)]
        try:
            state.episodes.append(await _play(state, sample, number, hung, late))
        except (Broken, RequestRefused) as error:
            faults.append(str(error))
        except GaveUp:
            break
    moves = [move for episode in state.episodes for move in episode.moves]
    state.episodes += await _known_episodes(state)
    _check_answers(state, faults)
    if moves:
        _check_acceptance(state, moves)
    _check_finish(state, late)
    await _check_refusals(state)


async def _play(
    state: CheckState, sample: Sample, number: int, hung: set[str], late: list[str]
) -> PlayedEpisode:
    """Play one episode. Tools that never return are added to `hung`, problems after the end to
    `late`."""
    random = state.random(f"episode/{number}")
    seat = await state.checked.open(sample)
    moves: list[PlayedMove] = []
    try:
        seen = Seen()
        seen.add(_text(await seat.prompt()))
        for tool, arguments in choices(
            await seat.tools(), state.options.steps, random, seen, state.endings
        ):
            if tool in hung:
                continue
            try:
                moves.append(PlayedMove(tool, arguments, await seat.call(tool, arguments)))
            except Slow:
                hung.add(tool)
                raise
            seen.add(_text((moves[-1].answer.output or {}).get("blocks")) + moves[-1].answer.error)
            if moves[-1].answer.is_finished:
                state.endings.add(tool)
                late += await _late_problems(seat, moves[-1])
                break
    finally:
        await leave(seat)
    return PlayedEpisode(sample, moves)


async def _known_episodes(state: CheckState) -> list[PlayedEpisode]:
    """Play calls that ought to be accepted: those of recordings, and of the oracle on two tasks."""
    episodes = []
    recordings = [
        recording
        for recording in state.options.recordings
        if recording.environment == state.checked.name
    ]
    if state.options.recordings and not recordings:
        names = ", ".join(
            sorted({repr(recording.environment) for recording in state.options.recordings})
        )
        text = f"None is of {state.checked.name!r}; those in the file are of {names}."
        state.report.unclear(SUBJECT, "recorded episodes", text)
    for recording in recordings:
        with suppress(Broken, RequestRefused, GaveUp):
            episodes.append(
                await scripted(
                    state.checked, recording.sample, recording.calls, state.options.steps
                )
            )
    if state.local is not None and declares(state.local, "oracle"):
        for sample in state.samples[:2]:
            with suppress(Broken, RequestRefused, GaveUp):  # reported by the check of the oracle
                episodes.append(await oracle_episode(state.local, sample, state.options.steps))
    return episodes


def _text(blocks: Any) -> str:
    return "" if problem_of(blocks) else text_of(blocks)


async def _late_problems(seat: CheckedSession, last: PlayedMove) -> list[str]:
    """Call a tool after the end and return the problem if it is not refused. Raises: Broken."""
    answer = await seat.call(last.tool, last.arguments)
    if answer.status == "refused":
        return []
    return [
        f"Tool {last.tool!r} ran after the episode had finished; a server has to refuse calls "
        "after the end."
    ]


# --- judging --------------------------------------------------------------------------------------


def _check_answers(state: CheckState, faults: list[str]) -> None:
    moves = [(episode, move) for episode in state.episodes for move in episode.moves]
    failures = {
        move.tool: (episode, move)
        for episode, move in reversed(moves)
        if move.answer.status == "failed"
    }
    faults += [_fault(episode, move) for _, (episode, move) in sorted(failures.items())]
    if state.refusal and not faults:
        state.report.unclear(SUBJECT, "tools run", state.refusal)
    else:
        refusals = sum(move.answer.status == "refused" for _, move in moves)
        calls = (
            f"{len(moves)} calls in {len(state.episodes)} episodes were answered, {refusals} of "
            "them refused."
        )
        state.report.judge(SUBJECT, "tools run", faults, calls)
    wrong = [
        f"The output of tool {move.tool!r} {problem}; an agent learns nothing from it."
        for _, move in moves
        if move.answer.output is not None
        and (problem := problem_of(move.answer.output.get("blocks")))
    ]
    if not state.refusal:
        state.report.judge(
            SUBJECT, "outputs", wrong, "Every output has text or an image.", "warning"
        )
        _check_numbers(state)


def _fault(episode: PlayedEpisode, move: PlayedMove) -> str:
    what = ": ".join(filter(None, (move.answer.reason, move.answer.error)))
    advice = (
        " If the input is a mistake of the agent, raise ToolError."
        if move.answer.reason in _OF_INPUTS
        else ""
    )
    return (
        f"Tool {move.tool!r} failed in {episode.sample.label} for the input "
        f"{_shown(move.arguments)}: {what}.{advice}"
    )


def _check_numbers(state: CheckState) -> None:
    if state.local is not None:
        problems = sorted(state.local.lost)
        state.report.judge(
            SUBJECT, "nothing lost in JSON", problems, "No output contains NaN or an infinity."
        )


def _check_acceptance(state: CheckState, moves: list[PlayedMove]) -> None:
    tools = sorted({move.tool for move in moves})
    problems = []
    for tool in tools:
        calls = [move for move in moves if move.tool == tool]
        if all(move.answer.is_bad_input for move in calls):
            problems.append(
                f"Tool {tool!r} refused all {len(calls)} inputs that its schema allows, such as "
                f"{_shown(calls[0].arguments)}: {calls[0].answer.error} State in the schema what "
                "the model checks."
            )
    usable = {move.tool for episode in state.episodes for move in episode.accepted}
    unusable = [tool for tool in tools if tool not in usable]
    if unusable and not problems:
        text = f"Every input was refused by {', '.join(map(repr, unusable))}. {ADVICE}"
        return state.report.unclear(SUBJECT, "inputs accepted", text)
    state.report.judge(
        SUBJECT,
        "inputs accepted",
        problems,
        "Every tool accepts inputs that its schema allows.",
        "warning",
    )


def _check_finish(state: CheckState, late: list[str]) -> None:
    complete = [episode for episode in state.episodes if episode.is_finished]
    if complete:
        counts = f"{len(complete)} of {len(state.episodes)} episodes finished."
        state.report.ok(SUBJECT, "an end is reached", counts)
        state.report.judge(
            SUBJECT, "nothing after the end", late, "A call after the end is refused."
        )
        scores_groups = state.local is not None and state.local.hosted.supports_score_group
        unpaid = [] if any(episode.rewards for episode in complete) or scores_groups else [
            "Episodes finish without any reward; return one from the tool that finishes them."
        ]  # fmt: skip
        return state.report.judge(
            SUBJECT, "the end is rewarded", unpaid, "Finished episodes have rewards.", "warning"
        )
    why = (
        f"None of {len(state.episodes)} episodes of at most {state.options.steps} generated calls "
        "finished"
    )
    if state.local is not None and "finished" not in _source(state.local.hosted.cls):
        return state.report.warn(
            SUBJECT,
            "an end is reached",
            f"{why}, and no tool returns finished=True; let one end the episode.",
        )
    state.report.skip(
        SUBJECT, "an end is reached", f"{why}; play one to its end by hand, or raise --steps."
    )


def _source(cls: type) -> str:
    """Return the source of the class's module, or "finished" when it cannot be read."""
    module = inspect.getmodule(cls)
    try:
        return inspect.getsource(module) if module else "finished"
    except (OSError, TypeError):
        return "finished"


# --- refusals -------------------------------------------------------------------------------------


async def _check_refusals(state: CheckState) -> None:
    seat = await state.checked.open(state.samples[0])
    try:
        answer = await seat.call(NO_SUCH_TOOL, {})
        wrong = (
            []
            if answer.status == "refused"
            else [f"A tool that does not exist was not refused: {_described(answer)}."]
        )
        state.report.judge(SUBJECT, "unknown tool", wrong, "A tool that does not exist is refused.")
        crashes, acceptances, count = await _bad_inputs(state, seat)
    finally:
        await leave(seat)
    if not count:
        return state.report.skip(
            SUBJECT, "invalid inputs are refused", "The schemas forbid no input."
        )
    sentence = f"{count} inputs that the schemas forbid were refused."
    state.report.judge(SUBJECT, "invalid inputs do not crash", crashes, sentence)
    state.report.judge(SUBJECT, "invalid inputs are refused", acceptances, sentence, "warning")


async def _bad_inputs(state: CheckState, seat: CheckedSession) -> tuple[list[str], list[str], int]:
    """Call tools with inputs that their schemas forbid.

    Return the problems of inputs that crashed a tool, of inputs that were accepted, and the number
    of inputs.
    """
    crashes, acceptances, count = [], [], 0
    for tool in (await seat.tools())["tools"]:
        try:
            wrong = list(
                Inputs(tool["input_schema"], state.random(f"wrong/{tool['name']}")).invalid()
            )
        except Unproducible:
            continue
        for what, arguments in wrong[:6]:
            answer = await seat.call(tool["name"], arguments)
            count += 1
            label = f"Tool {tool['name']!r}, called {what}: {_shown(arguments)},"
            if answer.status == "failed":
                crashes.append(
                    f"{label} raised {_described(answer)}; refuse invalid input with ToolError."
                )
            elif answer.status == "ok":
                acceptances.append(
                    f"{label} ran although its schema forbids that; make schema and model agree."
                )
    return crashes, acceptances, count


def _described(answer: CallAnswer) -> str:
    return answer.error or f"it returned {_shown(answer.output or {})}"


def _shown(value: Any) -> str:
    return shorten(value_json(value), MAX_SHOWN_CHARACTERS)
