"""One live object of a class that can be saved: after its calls, it adds a snapshot to the outcome.

A snapshot is taken while no call of the instance runs, and calls wait meanwhile, or it could hold
half of a call. So the outcome of a call that ended while another one ran has none, and the one that
ends last has it for both.
"""

from __future__ import annotations

import asyncio
from typing import Any

from environments import wire
from environments.errors import EnvironmentFault
from environments.runtime.call_outcome import HARMLESS, CallOutcome, Snapshot
from environments.runtime.instance import Instance
from environments.runtime.usercode import OverTime

MAX_SNAPSHOT_BYTES = 4_000_000
"""Longest snapshot that is kept; each step writes it to the database."""


class SavingInstance(Instance):
    """An Instance whose outcomes have snapshots, one after every `snapshot_every` calls."""

    __slots__ = ("_calls", "_overdue", "_saving", "_unsaved")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # held while a snapshot is made, and for a moment by each call that begins
        self._saving = asyncio.Lock()
        self._calls = 0  # calls that run
        self._unsaved = 0  # calls since the last snapshot
        self._overdue = ""  # the call whose code may still run, because it did not end in its time

    async def run(self, name: str, arguments: wire.JSONObject) -> CallOutcome:
        """Run one tool call, and then take a snapshot if one is due. Raises only
        asyncio.CancelledError."""
        async with self._saving:
            self._calls += 1
        outcome = None
        try:
            outcome = await super().run(name, arguments)
        finally:
            self._calls -= 1
            self._unsaved += outcome is None or outcome.reason not in HARMLESS
        if outcome.reason == "timeout":
            self._overdue = name
        if not (self._calls or outcome.finished or self._unsaved < self._class.snapshot_every):
            async with self._saving:
                outcome.snapshot = await self._save()
        return outcome

    async def _save(self) -> Snapshot:
        if self._overdue:
            return Snapshot(
                problem=f"a call of {self._overdue!r} ran over its time, so its code may still run"
            )
        limit = self._limits.tool_timeout_seconds
        saving = self._code.call(self._env.save)
        try:
            state = await (saving if limit is None else self._code.within(limit, saving))
        except EnvironmentFault as fault:
            return Snapshot(problem=f"save() failed with {fault.kind}: {fault.text}")
        except OverTime:
            await self._code.abandon_unawaited()
            return Snapshot(problem=f"save() ran longer than {limit:g} s (ORSWEB_TOOL_TIMEOUT)")
        if not isinstance(state, bytes):
            return Snapshot(problem=f"save() returned {type(state).__name__}; expected bytes")
        if len(state) > MAX_SNAPSHOT_BYTES:
            return Snapshot(
                problem=f"save() returned {len(state):,} bytes; at most "
                f"{MAX_SNAPSHOT_BYTES:,} are kept"
            )
        self._unsaved = 0
        return Snapshot(state)
