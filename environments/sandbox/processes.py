"""What the processes of one sandbox do, as /proc shows it to the thread that watches over them
(`bubblewrap.py`).

Each function ignores processes that have ended in the meantime.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

SESSION_NICE = 5
"""Niceness of the sessions of processes, between which Linux with CONFIG_SCHED_AUTOGROUP shares
time first. At 12, programs hardly ran on a busy machine; how fast a server answers beside programs
that spin differs little."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def be_nice(inside: list[int]) -> None:
    """Let other sessions of processes go first. The niceness of a process counts only within its
    own session."""
    for pid in inside:
        # it has ended, there are no such groups, or another one was changed just now
        with suppress(OSError):
            group = Path(f"/proc/{pid}/autogroup")
            if group.read_text().split()[-1] != str(SESSION_NICE):
                group.write_text(str(SESSION_NICE))


def is_computing(inside: list[int]) -> bool:
    """Return whether a thread of the processes computes, or waits for a core to do so."""
    return any("R" in map(_state, threads) for threads in map(_threads, inside))


def _threads(pid: int) -> list[Path]:
    """Return the `stat` files of the threads; none if the process ends meanwhile, even between two
    looks of `glob`."""
    with suppress(OSError):
        return list(Path(f"/proc/{pid}/task").glob("*/stat"))
    return []


def _state(stat: Path) -> str:
    """Return the letter of the state of a process or thread; empty if it has ended."""
    with suppress(OSError, IndexError):
        return stat.read_text().rpartition(")")[2].split()[0]
    return ""


def is_suspended(inside: list[int]) -> bool:
    """Return whether the program, which is the child of bubblewrap's two processes, was suspended
    by a signal."""
    return len(inside) > 2 and _state(Path(f"/proc/{inside[2]}/stat")) == "T"


def with_descendants(pid: int) -> list[int]:
    """Return `pid` and all its descendants, children after their parents."""
    found = [pid]
    for one in found:
        with suppress(OSError, ValueError):  # it has ended in the meantime
            for children in Path(f"/proc/{one}/task").glob("*/children"):
                found += map(int, children.read_text().split())
    return found


def end_descendants(keep: Collection[int] = ()) -> None:
    """End the processes that this one has started, directly or not, with SIGKILL, but for those in
    `keep`."""
    for pid in with_descendants(os.getpid())[1:]:
        if pid not in keep:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def resident_bytes(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def count_files(pid: int, folder: str) -> int:
    """Return the number of files that `pid` sees in /work or /tmp. Each takes at least 1 KB of
    kernel memory.

    It is 0 while the sandbox is being set up, because bubblewrap still sees the directories of this
    machine.
    """
    with suppress(OSError):
        if not Path(f"/proc/{pid}/root").samefile("/"):
            known = os.statvfs(f"/proc/{pid}/root/{folder}")
            return known.f_files - known.f_ffree
    return 0
