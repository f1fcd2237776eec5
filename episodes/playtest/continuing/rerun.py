"""Calls: recorded steps called again in another session, each compared with the record. Driven by `progress.py`.

One after the other, in the order in which they were completed, refused ones too, so that the new transcript is like the
recorded one. What the record cannot hold is not called again as it was: a NaN stands there as null, a secret as stars.

Progress of the steps of a recorded episode on their way into a new session; Rerunning, which calls them.

On the service's event loop only; its LivePlay starts it and takes no other call before it is done. What pages are told
of it is `progress`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal

import structlog
from django.db import Error

from environments import wire
from environments.errors import OrsError
from environments.runtime.service import SessionService
from episodes.models import Play, Step
from episodes.playtest.reader_threads import readers

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


log = structlog.get_logger(__name__)

AT_ONCE_SECONDS = 1.0
"""A page waits so long; most episodes are run again in less, and are not seen on their way."""


@dataclass(frozen=True, slots=True)
class RerunProgress:
    state: Literal["running", "differs", "done", "failed"]
    """differs: a step came out otherwise, and the player has not said what then."""
    total: int
    """Steps to be run again."""
    done: int = 0
    differs: Rerun | None = None
    """The first step that came out otherwise."""
    others: int = 0
    """Steps that did."""
    asides: int = 0
    """Steps of which the metadata alone did."""
    fault: str = ""
    """Why it failed, as a sentence."""

    @property
    def left(self) -> int:
        return self.total - self.done

    def after(self, step: Rerun) -> RerunProgress:
        return replace(
            self,
            done=self.done + 1,
            differs=self.differs or (step if step.is_other else None),
            others=self.others + step.is_other,
            asides=self.asides + (bool(step.differing) and not step.is_other),
        )


class Rerunning:
    """Steps 0 to `last` of episode `parent`, called again in the session `sid`."""

    def __init__(self, service: SessionService, sid: str, owner: str, parent: int, last: int) -> None:
        self.progress = RerunProgress("running", last + 1)
        self._service, self._sid, self._owner, self._parent = service, sid, owner, parent
        self._goes_on = False

    @property
    def is_done(self) -> bool:
        return self.progress.state == "done"

    async def run(self) -> None:
        """Until all steps are done, or one comes out otherwise for the first time."""
        try:
            await self._run()
        except (OrsError, Error, ValueError) as error:
            log.info("recorded steps could not be run again", parent=self._parent, error=str(error))
            self._change(state="failed", fault=f"{str(error).rstrip('.')}.")

    def go_on(self) -> bool:
        """Let steps come out otherwise: they are counted. True: `run` has to be called again."""
        if self.progress.state != "differs":
            return False
        self._goes_on = True
        self._change(state="running")
        return True

    async def stop_here(self) -> None:
        """Play on from the last step that was run again, unless none was or more are on their way."""
        done = self.progress.done
        if done and self.progress.state in ("differs", "failed"):
            await self._note(parent_step=done - 1)
            self._change(state="done", total=done)

    async def _run(self) -> None:
        steps = recorded_steps(self._parent, self.progress.done, self.progress.total - 1)
        async with aclosing(rerun(self._service, self._sid, self._owner, steps)) as again:
            async for step in again:
                is_first = step.is_other and self.progress.differs is None
                self.progress = self.progress.after(step)
                if is_first:
                    await self._note(differs_at=step.index)
                if is_first and not self._goes_on:
                    self._change(state="differs")
                    return
        self._change(state="done")

    async def _note(self, **facts: int) -> None:
        rows = Play.objects.filter(episode__session_id=self._sid)
        await readers().run(lambda: rows.update(**facts))

    def _change(self, **changes: object) -> None:
        self.progress = replace(self.progress, **changes)  # type: ignore[arg-type]  # names are this file's
