"""Checks of what an agent receives before its first call: an open session, its prompt and its
tools."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from environments.checking.blocks import problem_of, text_of
from environments.checking.check_state import CheckState, same
from environments.checking.checked_environment import (
    Broken,
    GaveUp,
    RequestRefused,
    Sample,
    closing,
)
from environments.checking.checks.tools import check_session_tools
from environments.display.text_normalization import ANSWER_NAME, as_answer, tells
from environments.wire import ListToolsOutput


async def check_prompts(state: CheckState) -> None:
    prompts: list[tuple[Sample, Any]] = []
    failures, wrong, tools, listings = [], [], list[str](), []
    for sample in state.samples:
        try:
            prompt, listing = await _read(state, sample)
        except GaveUp:
            break
        except (Broken, RequestRefused) as error:
            failures.append(str(error))
            continue
        prompts.append((sample, prompt))
        if problem := problem_of(prompt):
            wrong.append(f"The prompt of {sample.label} {problem}.")
        try:
            output = ListToolsOutput.model_validate(listing)
        except ValueError as error:
            tools.append(
                f"The session of {sample.label} does not return a valid list of tools: {error}"
            )
            continue
        if output.tools or output.terminal_tool:
            listings.append(listing)
        else:
            tools.append(
                f"The session of {sample.label} lists no tool, so an agent cannot do anything in "
                "it."
            )
    sentence = f"Sessions open for {', '.join(sample.label for sample, _ in prompts)}."
    state.report.judge("sessions open", failures, sentence)
    state.samples = [sample for sample, _ in prompts]
    if not prompts:
        return state.report.skip("prompts", "No session could be opened.")
    state.report.judge("prompts", wrong, "Every prompt has text or an image.")
    state.report.judge("session tools", tools, "Every session lists its tools.")
    check_session_tools(state, listings)
    again = []
    for sample, prompt in prompts[:2]:
        second, _ = await _read(state, sample)
        if not same(prompt, second):
            again.append(
                f"The prompt of {sample.label} differs in a second session; make it from the task "
                "alone, or results cannot be compared."
            )
    state.report.judge(
        "repeatable prompt", again, "A second session has the same prompt.", "warning"
    )
    if not wrong:
        _check_hidden(state, [(sample.task, text_of(prompt)) for sample, prompt in prompts])


async def _read(state: CheckState, sample: Sample) -> tuple[Any, dict[str, Any]]:
    """Return prompt and tools of a new session. Raises: Broken, RequestRefused."""
    async with closing(state.environment.open(sample)) as seat:
        return await seat.prompt(), await seat.tools()


# --- answers in prompts ---------------------------------------------------------------------------


def _check_hidden(state: CheckState, prompts: Sequence[tuple[Any, str]]) -> None:
    hidden_fields = state.local.hosted.hidden_fields if state.local else frozenset()
    names = {name for task, _ in prompts if isinstance(task, dict) for name in task}
    suspects = {name for name in names if ANSWER_NAME.fullmatch(name.lower())} - hidden_fields
    if not hidden_fields and not suspects:
        return state.report.skip(
            "no answers", "No field is listed in hidden_fields or named like an answer."
        )
    if missing := sorted(hidden_fields - names):
        words = ", ".join(map(repr, missing))
        state.report.warn(
            "hidden fields", f"hidden_fields names {words}, which no sampled task has."
        )
    for name in sorted({*hidden_fields, *suspects}):
        if problem := _leak(name, prompts):
            add = state.report.fail if name in hidden_fields else state.report.warn
            return add("no answers", problem)
    names_checked = ", ".join(sorted({*hidden_fields, *suspects}))
    state.report.ok(
        "no answers", f"No prompt gives hidden fields or answers away ({names_checked})."
    )


def _leak(name: str, prompts: Sequence[tuple[Any, str]]) -> str:
    """Return a problem if the prompts contain values of the field, otherwise an empty text.

    One long text is a leak. A short one may be a coincidence, so it counts only if every prompt has
    its own, or one announces it ("the answer is …").
    """
    values = [
        (as_answer(task.get(name)), text)
        for task, text in prompts
        if isinstance(task, dict) and name in task
    ]
    leaks = [
        value
        for value, text in values
        if value and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text)
    ]
    is_everywhere = len(leaks) == len(values) and len(set(leaks)) > 1
    if is_everywhere or any(value and tells(text, value) for value, text in values):
        return (
            f"The prompt contains the task's {name!r} in {len(leaks)} of {len(values)} sampled "
            "tasks; leave it out."
        )
    return ""
