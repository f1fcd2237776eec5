"""Ends the processes that hosted code has started when their server ends, for whatever reason.

The supervisor is the "subreaper" of its processes: the kernel makes it the parent of every process
whose parent has ended. So what a server leaves behind becomes a child of the supervisor. A child
that was there before is a daemon, which left its parent while that ran; it may live as long as any
server does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

from environments.hosts import masked_output
from orsweb.server import forks

END_SECONDS = 2.0
"""How long killed processes may take to end; one that waits for a device may take longer."""
PAUSE_SECONDS = 0.005
MAX_NAME = 60
_PR_SET_CHILD_SUBREAPER = 36
_SELF_ENDING = b"episodes.rollups.follower_process"
_OURS = (b"environments.hosts.worker_program", b"bwrap")
"""In the command lines of processes that end with their server anyway."""


class Orphans:
    """The children of this process that it has not started."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._recent, self._daemons = frozenset[int](), frozenset[int]()

    def look(self, own: Collection[int]) -> None:
        """Reap those that have ended; to be called often, after the servers in `own` were
        reaped."""
        orphans = frozenset(pid for pid in _children() if pid not in own and not _reap(pid))
        # Two looks, because a server may have died between the last look at it and this one.
        self._daemons, self._recent = self._recent & orphans, orphans

    def end(self, own: Collection[int], *, with_daemons: bool) -> list[str]:
        """Kill all, but for `own`; return what each is for people, with the environment whose code
        has forked it."""
        names, deadline = dict[int, str](), time.monotonic() + END_SECONDS
        pids_to_spare = {*own} if with_daemons else {*own, *self._daemons}
        while (pids := _orphans(pids_to_spare)) and time.monotonic() < deadline:
            for pid in pids:
                if pid not in names:
                    names[pid] = _name_of(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(PAUSE_SECONDS)
        return list(filter(None, names.values()))


def _orphans(pids_to_spare: Collection[int]) -> list[int]:
    """Reap the children that have ended; return those that are left and don't end by themselves."""
    for pid in _children():
        if pid not in pids_to_spare:
            _reap(pid)
    # Read again: a process that has been reaped may have left children since the first look.
    return [
        pid
        for pid in _children()
        if pid not in pids_to_spare
        and _comm(pid) != masked_output.NAME
        and _SELF_ENDING not in _line(pid)
    ]


def _children() -> list[int]:
    # without pathlib, which takes three times as long: the supervisor looks five times a second
    pids = list[int]()
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208
        with open(f"/proc/self/task/{task}/children", "rb") as children:  # noqa: PTH123
            pids += map(int, children.read().split())
    return pids


def _reap(pid: int) -> bool:
    """Reap a child if it has ended; return whether it is gone."""
    with contextlib.suppress(ChildProcessError):
        return bool(os.waitpid(pid, os.WNOHANG)[0])
    return True


def _name_of(pid: int) -> str:
    """Return what it is for people, "of leaver (pid 7)" or "sleep 100 (pid 8)"; empty if it is
    ours, or is ending."""
    line, name = _line(pid), _comm(pid)
    if any(ours in line for ours in _OURS):
        return ""
    if name.startswith(forks.PREFIX):
        return f"{name} (pid {pid})"
    words = line.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    # one that ends, as workers do with their server, has none
    return words and f"{words[:MAX_NAME]} (pid {pid})"


def _comm(pid: int) -> str:
    return _read(pid, "comm").decode("utf-8", "replace").rstrip("\n")


def _line(pid: int) -> bytes:
    return _read(pid, "cmdline")


def _read(pid: int, name: str) -> bytes:
    with contextlib.suppress(OSError):  # it has ended
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""
