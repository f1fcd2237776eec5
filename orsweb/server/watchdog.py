"""Watches the server's process from the supervisor, which does not share its interpreter lock.

When the process dies, the watchdog reports which code ran and caused it. When the event loop has
stood still for HELD_SECONDS, it logs and reports the environment that holds the loop or the
interpreter's lock. If that cannot be seen, because other programs keep the cores busy or the code
sleeps, it tries again after ever longer pauses.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from environments.runtime.crash_notes import NotedCall, read_running_calls, read_sources
from environments.runtime.incident_reports import IncidentReport
from orsweb.server.heartbeat import Heartbeat
from orsweb.server.thread_stacks import (
    LOOP_STACK_SIGNAL,
    STACKS_SIGNAL,
    ThreadStack,
    callers,
    read_stacks,
)

HELD_SECONDS = 1.0
SUSPECT_SECONDS = 0.5
"""After this time without a beat, the CPU time of the threads is read, to be compared with that at
HELD_SECONDS.

Not sooner: a loop that runs is often seen twice between two beats, and reading 5,000 threads takes
50 ms.
"""
FROZEN_SECONDS = 1.0
"""If the supervisor itself did not run for so long, the server probably did not run either."""
STACKS_SECONDS = 0.2
"""Time for the server to answer a signal with stacks."""
MIN_SWITCHES = 50
"""How often a second a thread at least wakes up that waits for the interpreter's lock: it looks
every 5 ms."""
MIN_BUSY_SWITCHES = 5
"""The same on a busy machine. A thread that sleeps in hosted code wakes up once at the end."""
COMPUTING_SHARE = 1 / 4
"""A thread computes if it uses at least this share of what the busiest one uses; waiting for the
lock takes 1/20."""
MAX_LOOK_SECONDS = 1e-4
"""CPU time of a thread each time that it looks whether the interpreter's lock is free: 5 to 15 µs.
A thread that gets the lock computes for 5 ms.

On a busy machine the busiest thread gets so little of a core that looking takes a third as much.
"""
MIN_HOLDER_SHARE = 1 / 8
"""Share of the time in which a thread that holds the lock computes at least, or waits for a core
that others use."""

TICKS = os.sysconf("SC_CLK_TCK")
"""CPU time is counted in ticks, where the kernel does not tell it in nanoseconds: so many a
second."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Usage:
    """What the threads of the process have used so far."""

    at: float
    cpu_seconds: dict[int, float]
    core_seconds: dict[int, float]
    """CPU time and the time in which the thread would have computed, had there been a core for
    it."""
    switches: int
    """How often the main thread has waited."""


class Watchdog:
    """Watches one process. `directory` is where the process notes what it runs."""

    def __init__(self, server: int, heartbeat: Heartbeat, directory: Path) -> None:
        self._server, self._heartbeat, self._directory = server, heartbeat, directory
        self._beats, self._since, self._looked = -1, time.monotonic(), time.monotonic()
        self._usage: _Usage | None = None
        self._decide_at = 0.0
        self._held: IncidentReport | None = None
        self._read_to = 0
        self._out_of_memory = _count_out_of_memory()

    def look(self) -> None:
        """Check whether the event loop runs; to be called several times a second."""
        now = time.monotonic()
        is_frozen, self._looked = now - self._looked > FROZEN_SECONDS, now
        if self._heartbeat.beats != self._beats or not self._beats or is_frozen:
            self._end_hold(now)
            self._beats, self._since, self._usage = self._heartbeat.beats, now, None
        elif self._usage is None:
            if now - self._since > SUSPECT_SECONDS:
                self._usage, self._decide_at = self._use(), self._since + HELD_SECONDS
        elif now > self._decide_at:
            self._decide(self._usage, now)

    def report_death(self, status: int, reason: str = "") -> IncidentReport:
        """Write down how the process died and what ran. `reason`: why the supervisor killed it."""
        self._end_hold(time.monotonic())
        is_out_of_memory = (
            status == -signal.SIGKILL and _count_out_of_memory() > self._out_of_memory
        )
        if is_out_of_memory:
            reason = "out of memory"
        how = f"{describe(status)}, {reason}" if reason else describe(status)
        is_kill = status == -signal.SIGKILL and not is_out_of_memory
        report = self._with_culprit(IncidentReport("died", time.time(), how), is_kill=is_kill)
        report.write(self._directory)
        return report

    def _with_culprit(self, report: IncidentReport, *, is_kill: bool) -> IncidentReport:
        sources = read_sources(self._directory)
        running = [
            call for call in read_running_calls(self._directory) if call.environment in sources
        ]
        stacks = read_stacks(self._directory, self._read_to)
        stack = next((thread_stack for thread_stack in stacks if thread_stack.is_current), None)
        if stack is not None and (suspects := callers(stack, running, sources)):
            return replace(
                report, suspects=tuple(suspects), is_certain=_is_one(suspects), trace=stack.text
            )
        is_certain = stack is None and not is_kill and _is_one(running)
        trace = stack.text if stack else ""
        return replace(report, suspects=tuple(running), is_certain=is_certain, trace=trace)

    # --- a loop that stands still -----------------------------------------------------------------

    def _decide(self, before: _Usage, now: float) -> None:
        """Log what holds the loop, if that is new. Check again when the loop has stood still for
        twice as long: code may have slept at first, or computed beside the code with the lock.
        """
        report = self._find_holder(before)
        if self._held is None or report.suspects not in ((), self._held.suspects):
            self._held = report
            if report.suspects:
                log.warning(f"code of an environment holds {report.how}", **facts_of(report))
            else:  # perhaps the machine has too much to do
                log.info("the event loop stands still", trace=report.trace or None)
        self._usage, self._decide_at = self._use(), now + (now - self._since)

    def _find_holder(self, before: _Usage) -> IncidentReport:
        after, sources = self._use(), read_sources(self._directory)
        running = [
            call for call in read_running_calls(self._directory) if call.environment in sources
        ]
        stacks = self._ask_for_stacks()  # after that, the call may be over
        stack = next((thread_stack for thread_stack in stacks if not thread_stack.thread), None)
        on_loop = callers(stack, running, sources) if stack else []
        holders = self._lock_holders(before, after)
        beside = [call for call in running if call.thread_number in holders]
        # the main thread may have waited for the lock, on a machine too busy to say who has it
        if on_loop and not beside and self._waits(before, after, MIN_BUSY_SWITCHES):
            beside = [call for call in running if call.thread_number]
        how, is_certain = "the event loop", False
        if on_loop:
            # it has the lock at this moment; a call that keeps it for long may have taken it from
            # this code
            is_certain = not beside
        elif beside:
            how, is_certain = "the interpreter's lock", len(holders) == 1
            threads = {call.thread for call in beside}
            stack = next((item for item in stacks if item.thread in threads), None)
        suspects = on_loop + beside
        report = IncidentReport("held", time.time(), how, trace=stack.text if stack else "")
        return replace(
            report, suspects=tuple(suspects), is_certain=is_certain and _is_one(suspects)
        )

    def _lock_holders(self, before: _Usage, after: _Usage) -> list[int]:
        """Return the numbers of the threads that compute while the main thread only waits for the
        interpreter's lock.

        One of them holds it, unless they share it; others may run C code that has released it.
        There are none if the main thread computes too, because then it gets the lock in turn.
        """
        if not self._waits(before, after, MIN_SWITCHES):
            return []
        least = MIN_HOLDER_SHARE * (after.at - before.at)
        spent = _spent(before.cpu_seconds, after.cpu_seconds)
        most = max(spent.values(), default=0.0)
        core_seconds = _spent(before.core_seconds, after.core_seconds)
        return [
            thread
            for thread, seconds in spent.items()
            if seconds >= COMPUTING_SHARE * most and core_seconds[thread] >= least
        ]

    def _waits(self, before: _Usage, after: _Usage, switches: int) -> bool:
        """Return whether the main thread wakes up at least so often a second, and another thread
        computes instead."""
        spent = _spent(before.cpu_seconds, after.cpu_seconds)
        own, most = spent.pop(self._server, 0.0), max(spent.values(), default=0.0)
        looks = after.switches - before.switches
        looking = max(COMPUTING_SHARE * most, MAX_LOOK_SECONDS * looks)
        return looks >= switches * (after.at - before.at) and own < min(looking, most)

    def _ask_for_stacks(self) -> list[ThreadStack]:
        with suppress(OSError):
            start = self._stacks_size()
            os.kill(self._server, LOOP_STACK_SIGNAL)
            time.sleep(STACKS_SECONDS)
            # To write the stacks of threads that run can end the process. They will run if it was
            # stopped and goes on, or if its loop goes on already.
            if self._stacks_size() > start and self._heartbeat.beats == self._beats:
                os.kill(self._server, STACKS_SIGNAL)
                time.sleep(STACKS_SECONDS)
            self._read_to = self._stacks_size()
            return read_stacks(self._directory, start)
        return []

    def _stacks_size(self) -> int:
        return (self._directory / "stacks").stat().st_size

    def _end_hold(self, now: float) -> None:
        """Leave a report for the server, which goes on, or for the next one."""
        report, self._held = self._held, None
        if report is not None and report.suspects:
            replace(report, seconds=round(now - self._since, 1)).write(self._directory)
            self._heartbeat.announce_report()

    def _use(self) -> _Usage:
        tasks = Path(f"/proc/{self._server}/task")
        cpu_seconds, core_seconds, switches = dict[int, float](), dict[int, float](), 0
        with suppress(OSError):
            for thread in tasks.iterdir():
                with suppress(OSError):  # it has ended
                    cpu, wait = _times(thread)
                    cpu_seconds[int(thread.name)] = cpu
                    core_seconds[int(thread.name)] = cpu + wait
            lines = (tasks / str(self._server) / "status").read_text().splitlines()
            switches = next(int(line.split()[1]) for line in lines if line.startswith("voluntary"))
        return _Usage(time.monotonic(), cpu_seconds, core_seconds, switches)


def _times(thread: Path) -> tuple[float, float]:
    """Return the thread's CPU time, and how long it has waited for a core, if the kernel tells
    that. In seconds."""
    try:
        cpu, wait, _ = (thread / "schedstat").read_text().split()
    except OSError:
        fields = (thread / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS, 0.0
    return int(cpu) / 1e9, int(wait) / 1e9


def _spent(before: dict[int, float], after: dict[int, float]) -> dict[int, float]:
    return {thread: seconds - before.get(thread, 0.0) for thread, seconds in after.items()}


def describe(status: int) -> str:
    """Return how a process with this exit status died, such as "by signal 11 (SIGSEGV)"."""
    if status >= 0:
        return f"with status {status}"
    try:
        return f"by signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"by signal {-status}"


def facts_of(report: IncidentReport) -> dict[str, object]:
    """Return what the log says about the calls that are to blame, or may be."""
    calls: tuple[NotedCall, ...] = report.suspects[:3]
    return {
        "environment": ", ".join(dict.fromkeys(call.environment for call in calls)) or None,
        "call": ", ".join(dict.fromkeys(call.what for call in calls)) or None,
        "episode": ", ".join(str(call.episode) for call in calls) or None,
        "is_certain": report.is_certain,
        "trace": report.trace or None,
    }


def _is_one(calls: list[NotedCall]) -> bool:
    return len({call.environment for call in calls}) == 1


def _count_out_of_memory() -> int:
    """Return how many processes the kernel has killed since it started because memory was short."""
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/vmstat").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    return 0
