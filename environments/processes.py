"""What processes do and which they started, as /proc shows it: for sandboxes, for checks of
environments and for the server's own.

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
    for pid in inside:
        with suppress(OSError):  # the process ended, perhaps between two looks of `glob`
            if "R" in map(_state, list(Path(f"/proc/{pid}/task").glob("*/stat"))):
                return True
    return False


def _state(stat: Path) -> str:
    """Return the letter of the state of a process or thread; empty if it has ended."""
    with suppress(OSError, IndexError):
        return stat.read_text().rpartition(")")[2].split()[0]
    return ""


def is_suspended(inside: list[int]) -> bool:
    """Return whether a signal suspended the program, the child of bubblewrap's two processes."""
    return len(inside) > 2 and _state(Path(f"/proc/{inside[2]}/stat")) == "T"


def with_descendants(pid: int) -> list[int]:
    """Return `pid` and all its descendants, children after their parents."""
    pids = [pid]
    for parent in pids:  # which grows meanwhile
        with suppress(OSError, ValueError):  # it has ended in the meantime
            for children in Path(f"/proc/{parent}/task").glob("*/children"):
                pids += map(int, children.read_text().split())
    return pids


def end_descendants(keep: Collection[int] = ()) -> None:
    """Kill the processes that this one has started, directly or not, except those in `keep`."""
    for pid in with_descendants(os.getpid())[1:]:
        if pid not in keep:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def resident_bytes(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def count_files(pid: int, folder: str) -> int:
    """Return the number of files that `pid` sees in a directory such as /work. Each takes at least
    1 KB of kernel memory.

    0 while the sandbox starts, because bubblewrap still sees this machine's directories.
    """
    with suppress(OSError):
        if not Path(f"/proc/{pid}/root").samefile("/"):
            status = os.statvfs(f"/proc/{pid}/root/{folder}")
            return status.f_files - status.f_ffree
    return 0
