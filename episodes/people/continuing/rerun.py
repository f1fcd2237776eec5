"""Running the steps of a recorded episode again in a new session, and comparing each with the
record.

Steps run one after the other in the order in which they were completed, refused ones included, so
that the new transcript is like the recorded one. Values that the record cannot hold differ: NaN is
null there, a secret is stars.

Used on the service's event loop only. A LivePlay owns the `Rerun` and takes no other call before it
is done; pages read its `progress`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

import structlog
from django.db import Error

from environments import wire
from environments.errors import OrsError
from environments.runtime.service import SessionService
from episodes.models import Play, Step
from episodes.people.reader_threads import readers
from episodes.transcript.step_difference import UNSEEN, Aspect, differing

log = structlog.get_logger(__name__)

MAX_WAIT_SECONDS = 3600.0
CHUNK_STEPS = 50
VIEW_SECONDS = 1.0
"""A view waits this long. Most episodes are run again in less, so that people never see the
progress page."""


class NotOnRecord(OrsError):
    """A step that was run again is not on record."""

    def __init__(self) -> None:
        super().__init__("The session ended while the recorded steps were run again.")


@dataclass(frozen=True, slots=True)
class RerunStep:
    """A recorded step that was run again."""

    index: int
    """Index of the step, from 0. It is the index of the recorded step, too."""
    differing: tuple[Aspect, ...]
    """Aspects that differ from the recorded step; empty if none does."""

    @property
    def is_other(self) -> bool:
        """Return whether the difference could change an agent's play or return.

        Metadata, which often has times, could not.
        """
        return bool(set(self.differing) - UNSEEN)


@dataclass(frozen=True, slots=True)
class RerunProgress:
    """The steps that were run again so far, and how they differ from the record."""

    state: Literal["running", "differs", "done", "failed"]
    """differs: a step has a different result, and the player has not yet decided what to do."""
    total: int
    """Number of steps to run again."""
    count: int = 0
    """Number of steps that were run again."""
    differs: RerunStep | None = None
    """The first step with a different result."""
    others: int = 0
    """Number of steps with a different result."""
    asides: int = 0
    """Number of steps that differ in their metadata only."""
    fault: str = ""
    """Sentence about why running the steps failed."""

    @property
    def left(self) -> int:
        return self.total - self.count

    def after(self, step: RerunStep) -> RerunProgress:
        """Return the progress with one more step."""
        return replace(
            self,
            count=self.count + 1,
            differs=self.differs or (step if step.is_other else None),
            others=self.others + step.is_other,
            asides=self.asides + (bool(step.differing) and not step.is_other),
        )


class Rerun:
    """Runs steps 0 to `last` of episode `parent` again in the session `sid`."""

    def __init__(
        self, service: SessionService, sid: str, owner: str, parent: int, last: int
    ) -> None:
        self.progress = RerunProgress("running", last + 1)
        self._service, self._sid, self._owner, self._parent = service, sid, owner, parent
        self._accepts_differences = False

    @property
    def is_done(self) -> bool:
        return self.progress.state == "done"

    async def run(self) -> None:
        """Run the steps until all are done, or until one has a different result for the first
        time."""
        try:
            await self._run()
        except (OrsError, Error, ValueError) as error:
            log.info("recorded steps could not be run again", parent=self._parent, error=str(error))
            self._change(state="failed", fault=f"{str(error).rstrip('.')}.")

    def go_on(self) -> bool:
        """Accept different results, which are counted. True if `run` has to be called again."""
        if self.progress.state != "differs":
            return False
        self._accepts_differences = True
        self._change(state="running")
        return True

    async def stop_here(self) -> None:
        """Continue from the last step that was run again. Does nothing before the first one and
        while steps run."""
        count = self.progress.count
        if count and self.progress.state in ("differs", "failed"):
            await self._note(parent_step=count - 1)
            self._change(state="done", total=count)

    async def _run(self) -> None:
        steps = recorded_steps(self._parent, self.progress.count, self.progress.total - 1)
        async with aclosing(run_steps(self._service, self._sid, self._owner, steps)) as again:
            async for step in again:
                is_first = step.is_other and self.progress.differs is None
                self.progress = self.progress.after(step)
                if is_first:
                    await self._note(differs_at=step.index)
                if is_first and not self._accepts_differences:
                    self._change(state="differs")
                    return
        self._change(state="done")

    async def _note(self, **facts: int) -> None:
        rows = Play.objects.filter(episode__session_id=self._sid)
        await readers().run(lambda: rows.update(**facts))

    def _change(self, **changes: object) -> None:
        self.progress = replace(self.progress, **changes)  # type: ignore[arg-type]  # callers pass names of RerunProgress


# --- steps, one after the other -------------------------------------------------------------------


async def run_steps(
    service: SessionService, sid: str, owner: str, steps: AsyncIterable[Step]
) -> AsyncGenerator[RerunStep, None]:
    """Call `steps` again in the session `sid`, in which only the steps before them were called.
    Yield each comparison.

    Raises: OrsError once the session takes no calls.
    """
    async for step in steps:
        task_id = f"again-{step.index}"
        arguments = json.loads(step.input_json)
        call = await service.call(
            sid, owner, None, wire.ToolCall(name=step.tool, input=arguments, task_id=task_id)
        )
        while not await call.wait(MAX_WAIT_SECONDS):
            pass
        call.is_delivered = True
        yield await readers().run(_compared, step, sid, task_id)


async def recorded_steps(episode: int, first: int, last: int) -> AsyncGenerator[Step, None]:
    """Yield the steps `first` to `last` of an episode, read in chunks."""
    while first <= last:
        rows = Step.objects.filter(episode=episode, index__gte=first, index__lte=last)
        rows = rows.order_by("index").select_related("input_blob", "output_blob")
        steps: list[Step] = await readers().run(list, rows[:CHUNK_STEPS])
        if not steps:
            return
        for step in steps:
            yield step
        first = steps[-1].index + 1


def _compared(then: Step, sid: str, task_id: str) -> RerunStep:
    """Compare a recorded step with its repetition in the session `sid`. Raises: NotOnRecord."""
    rows = Step.objects.select_related("output_blob").filter(
        episode__session_id=sid, task_id=task_id
    )
    now = rows.first()
    if now is None:
        raise NotOnRecord
    return RerunStep(then.index, differing(then, now))
