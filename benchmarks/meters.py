"""Meters of the CPU time and memory of processes and of the machine, which read from the operating
system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter, process_time

import psutil


@dataclass(frozen=True)
class Reading:
    """Times in seconds up to now; the difference of two readings is the cost of the time between
    them."""

    wall: float
    own: float
    """CPU time of this process."""
    machine: float
    """CPU time of all programs on all cores, including time stolen by other virtual machines."""
    watched: Mapping[str, float]
    """CPU time of each watched process, including its threads and children."""

    @classmethod
    def of(cls, processes: Mapping[str, int]) -> Reading:
        watched = {name: _cpu_seconds(pid) for name, pid in processes.items()}
        times = psutil.cpu_times()
        machine = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
        return cls(perf_counter(), process_time(), float(machine), watched)

    def __sub__(self, earlier: Reading) -> Reading:
        return Reading(
            self.wall - earlier.wall,
            self.own - earlier.own,
            self.machine - earlier.machine,
            {name: seconds - earlier.watched[name] for name, seconds in self.watched.items()},
        )

    @property
    def own_share(self) -> float:
        """CPU time of this process as a share of one core."""
        return self.own / self.wall

    @property
    def others_share(self) -> float:
        """CPU time of all other programs, except the watched processes, as a share of all cores."""
        others = self.machine - self.own - sum(self.watched.values())
        return others / self.wall / float(psutil.cpu_count())


def resident_bytes(pid: int) -> int:
    """Return the resident memory of the process and its children."""
    return sum(process.memory_info().rss for process in _family(pid))


def _cpu_seconds(pid: int) -> float:
    """Return the user and system time of the process, its threads, and its running and ended
    children."""
    own = psutil.Process(pid).cpu_times()
    total = own.children_user + own.children_system
    for process in _family(pid):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return float(total)


def _family(pid: int) -> Iterator[psutil.Process]:
    process = psutil.Process(pid)
    yield process
    yield from process.children(recursive=True)
