"""Progress of the steps of a recorded episode on their way into a new session; Rerunning, which calls them.

On the service's event loop only; its LivePlay starts it and takes no other call before it is done. What pages are told
of it is `progress`.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

import structlog
from django.db import Error

from environments.errors import OrsError
from environments.runtime.service import SessionService
from episodes.plays import Play
from episodes.playtest.continuing.calls import Rerun, recorded_steps, rerun
from episodes.playtest.threads import readers

log = structlog.get_logger(__name__)

AT_ONCE_SECONDS = 1.0
"""A page waits so long; most episodes are run again in less, and are not seen on their way."""


@dataclass(frozen=True, slots=True)
class Progress:
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

    def after(self, step: Rerun) -> Progress:
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
        self.progress = Progress("running", last + 1)
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
