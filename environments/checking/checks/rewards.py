"""Checks that the rewards of the played episodes agree with what the class declares about its
rewards, and that score_group, if it is offered, returns one for each candidate, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from environments.checking.check_state import CheckState
from environments.checking.checked_environment import Broken, closing
from environments.database.storable import double_of
from environments.display.numbers import plain, threshold_text
from environments.schemas.inputs import FINAL_MESSAGE
from environments.scoring.convention import convention_declared
from environments.scoring.returns import RETURNS

TOLERANCE = 1e-9


async def check_rewards(state: CheckState) -> None:
    if state.local is None:
        rewards = [reward for episode in state.episodes for reward in episode.rewards]
        seen_range = (
            f"Rewards from {_span((min(rewards), max(rewards)))} were seen."
            if rewards
            else "No reward was seen."
        )
        state.report.skip(
            "range", f"The protocol does not transmit the declared range. {seen_range}"
        )
        return
    cls = state.local.hosted.cls
    definition = getattr(cls, "default_return", "sum")
    reward_range = getattr(cls, "reward_range", (0.0, 1.0))
    bounds = bounds_of(reward_range)
    problems = []
    if definition not in RETURNS:
        problems.append(f"default_return is {definition!r}; use one of {', '.join(RETURNS)}.")
    if bounds is None:
        problems.append(
            f"reward_range is {reward_range!r}; use two finite numbers, the lower first."
        )
    span = _span(bounds) if bounds else ""
    state.report.judge(
        "declarations", problems, f"Return is the {definition} of rewards, within {span}."
    )
    try:
        differences = str(convention_declared(getattr(cls, "convention", {})))
    except ValueError as error:
        state.report.fail("convention", str(error))
    else:
        how = f" except {differences}" if differences else ""
        state.report.ok("convention", f"Endings count by the default convention{how}.")
    if bounds is not None and definition in RETURNS:
        _check_threshold(state, getattr(cls, "success_threshold", 0.9), bounds)
        _check_range(state, definition, bounds)


def bounds_of(value: Any) -> tuple[float, float] | None:
    try:
        low, high = map(float, value)
    except (TypeError, ValueError, OverflowError):
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) and low < high else None


def _check_threshold(state: CheckState, threshold: Any, bounds: tuple[float, float]) -> None:
    low, high = bounds
    if isinstance(threshold, int | float) and low <= threshold < high:
        return state.report.ok("success", f"An episode succeeds above {threshold_text(threshold)}.")
    state.report.warn(
        "success",
        f"success_threshold is {threshold!r}, which no return from {_span(bounds)} can exceed, or "
        "all do; set it.",
    )


def _check_range(state: CheckState, definition: str, bounds: tuple[float, float]) -> None:
    low, high = bounds
    returns = [
        (return_of(episode.rewards, definition), episode)
        for episode in state.episodes
        if episode.rewards
    ]
    if not returns:
        if state.refusal:
            return state.report.unclear("range", state.refusal)
        return state.report.skip(
            "range", "No reward was seen, so the declared range could not be compared."
        )
    assert state.local is not None
    is_declared = any(
        "reward_range" in vars(cls)
        for cls in state.local.hosted.cls.__mro__
        if cls.__module__ != "environments.authoring.environment"
    )
    problems = []
    for value, episode in returns:
        if not low - TOLERANCE <= value <= high + TOLERANCE:
            remedy = (
                "that is outside of reward_range: correct the rewards or the range."
                if is_declared
                else "the class declares no reward_range, so 0 to 1 is assumed: declare one that "
                f"includes {plain(value)}."
            )
            problems.append(
                f"An episode of {episode.sample.label} returned {plain(value)} after "
                f"{len(episode.moves)} calls; {remedy}"
            )
    values = [value for value, _ in returns]
    sentence = (
        f"Returns from {_span((min(values), max(values)))} were seen, within {_span(bounds)}."
    )
    state.report.judge("range", problems, sentence, "failed" if is_declared else "warning")


def _span(bounds: tuple[float, float]) -> str:
    low, high = bounds
    return f"{plain(low)} to {plain(high)}"


def return_of(rewards: Sequence[float], definition: str) -> float:
    """Return the return of an episode with `rewards`; 0 without any, like a rollout that calls no
    tool."""
    if definition == "sum" or not rewards:
        return math.fsum(rewards)
    if definition == "mean":
        return min(math.fsum(rewards) / len(rewards), max(rewards))
    return rewards[-1] if definition == "last" else max(rewards)


async def check_scoring(state: CheckState) -> None:
    if not state.samples or not (await state.environment.tools()).get("supports_score_group"):
        return
    candidates = [
        {"messages": [{"role": "assistant", "blocks": [{"type": "text", "text": text}]}]}
        for text in (FINAL_MESSAGE, "I do not know.")
    ]
    problem = ""
    try:
        async with closing(state.environment.open(state.samples[0])) as seat:
            answer = await seat.score(candidates)
        scores = answer.get("scores") if isinstance(answer, dict) else None
        rewards = [
            double_of(score["reward"])
            for score in (scores if isinstance(scores, list) else ())
            if isinstance(score, dict) and isinstance(score.get("reward"), int | float)
        ]
        if len(rewards) != len(candidates) or not all(map(math.isfinite, rewards)):
            problem = (
                f"score_group returned {answer!r} for 2 candidates; return one finite reward for "
                "each, in order."
            )
    except Broken as error:
        problem = str(error)
    state.report.expect(
        "groups are scored", not problem, problem, "Each candidate of a group has a finite reward."
    )
