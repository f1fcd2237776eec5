"""Calls: recorded steps called again in another session, each compared with the record. Driven by `progress.py`.

One after the other, in the order in which they were completed, refused ones too, so that the new transcript is like the
recorded one. What the record cannot hold is not called again as it was: a NaN stands there as null, a secret as stars.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass
from typing import Any, Literal

from environments import wire
from environments.errors import OrsError
from environments.runtime.service import SessionService
from episodes.models import Step
from episodes.playtest.threads import readers

WAIT_SECONDS = 3600.0
CHUNK_STEPS = 50

Aspect = Literal["outcome", "error", "output", "reward", "finished", "metadata"]
"""Of what a step came to: whether it was ok, refused (and why) or failed; the text of that; blocks; and so on."""


class NotOnRecord(OrsError):
    def __init__(self) -> None:
        super().__init__("The session ended while the recorded steps were run again.")


@dataclass(frozen=True, slots=True)
class Rerun:
    """One step that was called again."""

    index: int
    """0-based; that of the recorded step is equal."""
    differing: tuple[Aspect, ...]
    """What came out otherwise; empty: nothing."""

    @property
    def is_other(self) -> bool:
        """Whether an agent would have noticed, or its return. Metadata, which often holds times, is neither."""
        return bool(set(self.differing) - {"metadata"})


async def rerun(
    service: SessionService, sid: str, owner: str, steps: AsyncIterable[Step]
) -> AsyncGenerator[Rerun, None]:
    """Call `steps` again in the session `sid`, which has called those before them and nothing else.

    Raises: OrsError once the session takes no calls.
    """
    async for step in steps:
        task_id = f"again-{step.index}"
        arguments = json.loads(step.input_json)
        call = await service.call(sid, owner, None, wire.ToolCall(name=step.tool, input=arguments, task_id=task_id))
        while not await call.wait(WAIT_SECONDS):
            pass
        call.is_delivered = True
        yield await readers().run(_compared, step, sid, task_id)


async def recorded_steps(episode: int, first: int, last: int) -> AsyncGenerator[Step, None]:
    """Steps `first` to `last` of an episode, read a few at a time."""
    while first <= last:
        steps = await readers().run(_chunk, episode, first, last)
        if not steps:
            return
        for step in steps:
            yield step
        first = steps[-1].index + 1


def differing(then: Step, now: Step) -> tuple[Aspect, ...]:
    """What two steps came to that is not the same, JSON compared by exact value: 1, 1.0 and true are three."""
    before, after = _told(then), _told(now)
    return tuple(aspect for aspect in before if before[aspect] != after[aspect])


def _chunk(episode: int, first: int, last: int) -> list[Step]:
    rows = Step.objects.filter(episode=episode, index__gte=first, index__lte=last).order_by("index")
    return list(rows.select_related("input_blob", "output_blob")[:CHUNK_STEPS])


def _compared(then: Step, sid: str, task_id: str) -> Rerun:
    """Raises: NotOnRecord."""
    rows = Step.objects.select_related("output_blob").filter(episode__session_id=sid, task_id=task_id)
    now = rows.first()
    if now is None:
        raise NotOnRecord
    return Rerun(then.index, differing(then, now))


def _told(step: Step) -> dict[Aspect, Any]:
    output = _read(step.output_json)
    is_whole = isinstance(output, dict)
    return {
        "outcome": (step.status, step.reason),
        "error": step.error,
        "output": _exact(output.get("blocks") if is_whole else output),
        "reward": step.reward,
        "finished": step.finished,
        "metadata": _exact(output.get("metadata") if is_whole else None),
    }


def _read(text: str) -> Any:
    try:
        return json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return text


def _exact(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return repr(value)
