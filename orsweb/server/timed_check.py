"""Checks hosted code in a process of its own, which is killed if a step takes too long.

Nothing else ends code that waits for ever or holds the interpreter's lock. `serve --check` works
like this, and every reload runs `serve --check`.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import select
import signal
import sys
import tempfile
from itertools import takewhile
from pathlib import Path

import environments
from environments.errors import OF_A_LIBRARY
from environments.processes import with_descendants
from environments.tasks.sync import Begin
from orsweb.server.thread_stacks import ThreadStack, stacks_in
from orsweb.server.watchdog import describe

STACKS_SECONDS = 1.0
"""Time for the process to write its stacks before it is killed."""
_CALLERS = tuple(
    f"{Path(environments.__file__).parent}/{name}/" for name in ("authoring", "hosts", "runtime")
)
"""Folders of the modules that call hosted code."""
_PR_SET_PDEATHSIG = 1


def go_on_watched(seconds: float) -> Begin:
    """Return in a process of its own only, which this one watches: a function to call with the name
    of each step before it begins. Each step may take `seconds`.

    Raises: SystemExit in this process, with the status of the other one; or with a sentence that
    names the step, if it takes too long or ends that process by a signal.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    stacks = tempfile.TemporaryFile("w+")  # noqa: SIM115  # the other process writes into it until it ends
    (steps, begin), parent = os.pipe(), os.getpid()
    if not (pid := os.fork()):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before
            os._exit(1)
        os.close(steps)
        faulthandler.enable(stacks)  # it writes them in C, at a SIGABRT, too
        return lambda step: os.write(begin, f"{step}\n".encode())
    os.close(begin)
    step, has_ended = _follow(steps, process := os.pidfd_open(pid), seconds)
    if not has_ended:
        processes = with_descendants(pid)
        os.kill(pid, signal.SIGABRT)
        select.select([process], [], [], STACKS_SECONDS)
        for descendant in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(descendant, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if has_ended and status >= 0:
        raise SystemExit(status)
    stacks.seek(0)
    place = _place(stacks_in(stacks.read()))
    if has_ended:
        raise SystemExit(f"{step} ended the process {describe(status)}{place}.")
    raise SystemExit(f"{step} did not end within {seconds:g} s, ORSWEB_RELOAD_LIMIT{place}.")


def _follow(steps: int, process: int, seconds: float) -> tuple[str, bool]:
    """Wait until the process has ended or a step has taken too long; return that step, and whether
    it has ended."""
    step = "The check"
    descriptors = [steps, process]
    while ready := select.select(descriptors, [], [], seconds)[0]:
        if steps not in ready:
            return step, True
        if text := os.read(steps, select.PIPE_BUF).decode("utf-8", "replace"):
            step = text.splitlines()[-1]
        else:  # hosted code has closed it
            descriptors.remove(steps)
    return step, False


def _place(stacks: list[ThreadStack]) -> str:
    """Return the line of hosted code that ran, as the end of a sentence; empty if none did."""
    for stack in stacks:
        frames = list(takewhile(lambda frame: not frame[0].startswith(_CALLERS), stack.frames))
        own = [frame for frame in frames if not OF_A_LIBRARY.search(frame[0])]
        if own and len(frames) < len(stack.frames):
            return f" ({own[0][0]}, line {own[0][1]})"
    return ""
