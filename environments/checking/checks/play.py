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
    closing,
)
from environments.checking.checks.trials import declares, played
from environments.errors import shorten
from environments.schemas.input_texts import Seen
from environments.schemas.inputs import Inputs, Unproducible, choices
from environments.wire import value_json

MAX_SHOWN_CHARACTERS = 120
_OF_INPUTS = ("ValueError", "KeyError", "IndexError", "LookupError", "ZeroDivisionError")
"""Exceptions that an agent's input may cause. Others are bugs of the author."""
NO_SUCH_TOOL = "no_such_tool_of_this_environment"


async def check_play(state: CheckState) -> None:
    if not state.samples:
        return state.report.skip("episodes", "No session could be opened.")
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
    if state.local is not None and declares(state.local, "oracle"):
        # its calls ought to be accepted
        for sample in state.samples[:2]:
            with suppress(Broken, RequestRefused, GaveUp):  # reported by the check of the oracle
                state.episodes.append(await played(state.local, sample, state.options.steps))
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
    random, moves, observations = state.random(f"episode/{number}"), list[PlayedMove](), Seen()
    async with closing(state.environment.open(sample)) as seat:
        observations.add(_text(await seat.prompt()))
        tools = await seat.tools()
        for tool, arguments in choices(
            tools, state.options.steps, random, observations, state.endings
        ):
            if tool in hung:
                continue
            try:
                answer = await seat.call(tool, arguments)
            except Slow:
                hung.add(tool)
                raise
            moves.append(PlayedMove(tool, arguments, answer))
            observations.add(_text((answer.output or {}).get("blocks")) + answer.error)
            if answer.is_finished:
                state.endings.add(tool)
                if (await seat.call(tool, arguments)).status != "refused":
                    late.append(
                        f"Tool {tool!r} ran after the episode had finished; a server has to refuse "
                        "calls after the end."
                    )
                break
    return PlayedEpisode(sample, moves)


def _text(blocks: Any) -> str:
    return "" if problem_of(blocks) else text_of(blocks)


# --- judging --------------------------------------------------------------------------------------


def _check_answers(state: CheckState, faults: list[str]) -> None:
    moves = [(episode, move) for episode in state.episodes for move in episode.moves]
    failures = {
        move.tool: (episode, move)
        for episode, move in reversed(moves)
        if move.answer.status == "failed"
    }
    for _, (episode, move) in sorted(failures.items()):
        advice = (
            " If the input is a mistake of the agent, raise ToolError."
            if move.answer.reason in _OF_INPUTS
            else ""
        )
        faults.append(
            f"Tool {move.tool!r} failed in {episode.sample.label} for the input "
            f"{_shown(move.arguments)}: "
            f"{': '.join(filter(None, (move.answer.reason, move.answer.error)))}.{advice}"
        )
    if state.refusal and not faults:
        state.report.unclear("tools run", state.refusal)
    else:
        refusals = sum(move.answer.status == "refused" for _, move in moves)
        calls = (
            f"{len(moves)} calls in {len(state.episodes)} episodes were answered, {refusals} of "
            "them refused."
        )
        state.report.judge("tools run", faults, calls)
    wrong = [
        f"The output of tool {move.tool!r} {problem}; an agent learns nothing from it."
        for _, move in moves
        if move.answer.output is not None
        and (problem := problem_of(move.answer.output.get("blocks")))
    ]
    if not state.refusal:
        state.report.judge("outputs", wrong, "Every output has text or an image.", "warning")
        if state.local is not None:
            problems = sorted(state.local.lost)
            state.report.judge(
                "nothing lost in JSON", problems, "No output contains NaN or an infinity."
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
        return state.report.unclear("inputs accepted", text)
    state.report.judge(
        "inputs accepted",
        problems,
        "Every tool accepts inputs that its schema allows.",
        "warning",
    )


def _check_finish(state: CheckState, late: list[str]) -> None:
    complete = [episode for episode in state.episodes if episode.is_finished]
    if complete:
        counts = f"{len(complete)} of {len(state.episodes)} episodes finished."
        state.report.ok("an end is reached", counts)
        state.report.judge("nothing after the end", late, "A call after the end is refused.")
        scores_groups = state.local is not None and state.local.hosted.supports_score_group
        return state.report.expect(
            "the end is rewarded",
            scores_groups or any(episode.rewards for episode in complete),
            "Episodes finish without any reward; return one from the tool that finishes them.",
            "Finished episodes have rewards.",
            "warning",
        )
    why = (
        f"None of {len(state.episodes)} episodes of at most {state.options.steps} generated calls "
        "finished"
    )
    source = "finished"  # as if a tool returned it, where the module cannot be read
    with suppress(OSError, TypeError):
        if state.local and (module := inspect.getmodule(state.local.hosted.cls)):
            source = inspect.getsource(module)
    if "finished" not in source:
        return state.report.warn(
            "an end is reached",
            f"{why}, and no tool returns finished=True; let one end the episode.",
        )
    state.report.skip("an end is reached", f"{why}; play one to its end by hand, or raise --steps.")


# --- refusals -------------------------------------------------------------------------------------


async def _check_refusals(state: CheckState) -> None:
    async with closing(state.environment.open(state.samples[0])) as seat:
        answer = await seat.call(NO_SUCH_TOOL, {})
        state.report.expect(
            "unknown tool",
            answer.status == "refused",
            f"A tool that does not exist was not refused: {_described(answer)}.",
            "A tool that does not exist is refused.",
        )
        crashes, acceptances, count = await _bad_inputs(state, seat)
    if not count:
        return state.report.skip("invalid inputs are refused", "The schemas forbid no input.")
    sentence = f"{count} inputs that the schemas forbid were refused."
    state.report.judge("invalid inputs do not crash", crashes, sentence)
    state.report.judge("invalid inputs are refused", acceptances, sentence, "warning")


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
