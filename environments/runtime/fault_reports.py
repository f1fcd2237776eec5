"""Collects the exceptions of authors' code for Incidents: one report for each line that raises."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from environments.errors import EnvironmentFault
from environments.runtime.crash_notes import NotedCall
from environments.runtime.incident_reports import IncidentReport

STORE_SECONDS = 1.0
"""Time for which exceptions are collected."""
MAX_LINES = 20
"""Lines of code reported in that time; exceptions of further ones are in the log only."""
MAX_OCCURRENCES = 200
"""Episodes and steps that are kept for each line."""


class FaultReports:
    """For use on the service's event loop."""

    def __init__(self, store: Callable[[Sequence[IncidentReport]], None]) -> None:
        self._store = store
        self._reports: dict[tuple[str, str, str], IncidentReport] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: NotedCall, fault: EnvironmentFault, step: int | None) -> None:
        """Add that `call` raised `fault`, whose texts are masked; `step`: the index of its step."""
        how = f"{fault.kind} in {fault.place}" if fault.place else fault.kind
        key = (call.environment, call.what, how)
        report = self._reports.get(key)
        if report is None:
            if len(self._reports) >= MAX_LINES:
                return
            report = IncidentReport(
                "code",
                call.since,
                how,
                suspects=(call,),
                is_certain=True,
                trace=fault.trace,
                count=0,
            )
        occurrences = report.occurrences
        if call.episode:
            where = f"episode {call.episode}" + ("" if step is None else f", step {step}")
            occurrences = (*occurrences, where)[-MAX_OCCURRENCES:]
        self._reports[key] = replace(
            report, at=time.time(), count=report.count + 1, occurrences=occurrences
        )
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(STORE_SECONDS, self.flush)

    def flush(self) -> None:
        """Store the collected reports."""
        if self._timer is not None:
            self._timer.cancel()
        reports, self._reports, self._timer = list(self._reports.values()), {}, None
        if reports:
            self._store(reports)
