"""Plays recorded episodes again with today's code of their environments, without recording
anything, and compares.

The calls of an episode are made one after the other in the order in which they were completed,
refused ones included. Calls that the server cut short, because the session ended, are left out:
their results say nothing about the code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from environments.display.parts import read_json
from environments.errors import EnvironmentFault, OrsError, UnknownEnvironment
from environments.runtime.call_outcome import CallOutcome, truncate_error
from environments.runtime.host import Host, PlayedInstance
from environments.runtime.secrets_mask import Mask, mask_of
from episodes.models import Episode, Step
from episodes.transcript.step_difference import ASIDES, Aspect, differing

CUT_SHORT = ("deleted", "interrupted")
"""Reasons of failed calls that the server itself ended."""


@dataclass(frozen=True, slots=True)
class DifferingStep:
    step: Step
    """The recorded step."""
    again: Step
    """The result of the same call today; it is not stored."""
    aspects: Sequence[Aspect]

    @property
    def is_aside(self) -> bool:
        """Return whether only metadata differs."""
        return not set(self.aspects) - ASIDES


@dataclass(frozen=True, slots=True)
class Reexecution:
    """An episode that was played again."""

    episode: Episode
    steps: Sequence[DifferingStep]
    """The steps whose result differs, in order."""
    count: int
    """Number of steps that were played."""
    has_other_prompt: bool
    fault: str = ""
    """Why it could not be played to its end; empty if it could."""

    @property
    def differs(self) -> bool:
        """Return whether something differs that an agent sees or is paid, or the episode cannot be
        played any more."""
        return (
            bool(self.fault)
            or self.has_other_prompt
            or any(not step.is_aside for step in self.steps)
        )


def recorded_steps(episode: Episode) -> Iterator[Step]:
    """Yield the steps of an episode in order, without those that were cut short."""
    rows = (
        Step.objects.filter(episode=episode)
        .exclude(status="failed", reason__in=CUT_SHORT)
        .order_by("index")
    )
    return rows.select_related("input_blob", "output_blob").iterator(50)


async def reexecute(
    host: Host, episode: Episode, steps: Sequence[Step], secrets: Mapping[str, str] | None = None
) -> Reexecution:
    """Play the calls of `steps` in a new instance of the episode's environment and return what
    differs."""
    secrets = dict(secrets or {})
    try:
        instance, mask = host.instance(episode.environment.name), mask_of(tuple(secrets.values()))
    except UnknownEnvironment as error:
        return Reexecution(episode, [], 0, has_other_prompt=False, fault=str(error))
    differences: list[DifferingStep] = []
    count, has_other_prompt, fault = 0, False, ""
    try:
        if await instance.construct(json.loads(episode.task.spec), secrets, None):
            await instance.set_up()
        if episode.prompt is not None:
            has_other_prompt = await _has_other_prompt(instance, episode.prompt.text, mask)
        for step in steps:
            again = _step_of(await instance.run(step.tool, json.loads(step.input_json)), mask)
            count += 1
            if aspects := differing(step, again):
                differences.append(DifferingStep(step, again, aspects))
    except OrsError as error:  # construction, setup or prompt failed
        fault = mask.text(str(error))
    finally:
        try:
            await instance.close()
        except EnvironmentFault as error:
            fault = f"teardown failed: {error}"
    return Reexecution(episode, differences, count, has_other_prompt, fault)


async def _has_other_prompt(instance: PlayedInstance, prompt: str, mask: Mask) -> bool:
    """Return whether the prompt differs from the recorded one, which may be blocks or messages."""
    then = read_json(prompt)
    has_messages = isinstance(then, list) and any(
        isinstance(message, dict) and "role" in message for message in then
    )
    now = await (instance.messages_json() if has_messages else instance.prompt_json())
    return bool(then != read_json(mask.json(now)))


def _step_of(outcome: CallOutcome, mask: Mask) -> Step:
    return Step(
        status=outcome.status,
        reason=outcome.reason,
        error=truncate_error(mask.text(outcome.error)),
        output="" if outcome.output_json is None else mask.json(outcome.output_json),
        reward=outcome.reward,
        finished=outcome.finished,
    )
