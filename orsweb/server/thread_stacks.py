"""The stacks of the server's threads, which `faulthandler` writes in C, without the interpreter's
lock, and the running calls that they belong to.

The watchdog finds the environment by them whose code killed or held the process.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from environments.runtime.crash_notes import NotedCall

STACKS_SIGNAL = signal.SIGRTMIN
"""Makes the server's process write its stacks, even while code holds the interpreter's lock.

`faulthandler` writes those of the 100 newest threads, so in a large server that of the main thread
is not among them.
"""
LOOP_STACK_SIGNAL = signal.SIGRTMIN + 1
"""Makes it write the stack of its main thread alone, which runs the event loop and gets the signals
of the process."""
MAX_FRAMES = 30

_THREAD = re.compile(r"^(Current thread|Thread|Stack)(?: 0x([0-9a-f]+))? ")
_FRAME = re.compile(r'^  File "(.*)", line (\S+) in (.*)$')

_file: IO[str] | None = None


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """The stack of one thread, innermost frame first."""

    thread: int
    """Its identifier; 0: the main thread, of which LOOP_STACK_SIGNAL asks."""
    is_current: bool
    frames: tuple[tuple[str, str, str], ...]
    """File, line and function of each frame."""

    @property
    def text(self) -> str:
        return "\n".join(
            f'File "{file}", line {line}, in {name}'
            for file, line, name in self.frames[:MAX_FRAMES]
        )


def write_stacks_into(directory: Path) -> None:
    """Make this process write its stacks into `directory` when it dies, at `os._exit`, and at the
    two signals."""
    global _file
    directory.mkdir(mode=0o700, exist_ok=True)
    _file = (directory / "stacks").open("w")
    faulthandler.enable(_file)
    for number in (STACKS_SIGNAL, LOOP_STACK_SIGNAL):
        # what holds again when the interpreter ends, maybe slowly
        signal.signal(number, signal.SIG_IGN)
        faulthandler.register(number, _file, all_threads=number == STACKS_SIGNAL)
    os._exit = _exit_with_stacks(os.getpid(), os._exit)  # type: ignore[assignment]


def _exit_with_stacks(server: int, leave: object) -> object:
    def _exit(status: int) -> None:
        """End the process at once, as `os._exit`; in the server, its stacks are written before."""
        if os.getpid() == server and _file is not None:
            faulthandler.dump_traceback(_file)
        leave(status)  # type: ignore[operator]

    return _exit


def read_stacks(directory: Path, start: int = 0) -> list[ThreadStack]:
    """Return the stacks that the process has written into `directory`, from byte `start` on."""
    try:
        text = (directory / "stacks").read_bytes()[start:].decode("utf-8", "replace")
    except OSError:
        return []
    return stacks_in(text)


def stacks_in(text: str) -> list[ThreadStack]:
    """Return the stacks in what `faulthandler` has written."""
    stacks: list[tuple[int, bool, list[tuple[str, str, str]]]] = []
    for line in text.splitlines():
        if match := _THREAD.match(line):
            stacks.append((int(match[2] or "0", 16), match[1] == "Current thread", []))
        elif stacks and (match := _FRAME.match(line)):
            stacks[-1][2].append((match[1], match[2], match[3]))
    return [ThreadStack(thread, is_current, tuple(frames)) for thread, is_current, frames in stacks]


def callers(
    stack: ThreadStack, running: Sequence[NotedCall], sources: dict[str, list[str]]
) -> list[NotedCall]:
    """Return the running calls to which the stack may belong.

    A thread runs one call. On the event loop there may be many, so the files in the stack decide,
    then the functions.
    """
    if stack.thread and (own := [call for call in running if call.thread == stack.thread]):
        return own
    files, functions = {file for file, _, _ in stack.frames}, {name for _, _, name in stack.frames}
    matches = [
        call
        for call in running
        if not call.thread and files.intersection(sources.get(call.environment, ()))
    ]
    return [call for call in matches if call.what in functions] or matches
