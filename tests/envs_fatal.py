"""Environments whose code kills the server's process, or holds it up."""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import re
import resource
import signal
import subprocess
import threading
import time
from collections import deque
from functools import partial
from operator import call
from pathlib import Path

from environments import JSONObject, ToolOutput, tool
from tests.envs_base import Seconds, Small, said

COMPUTING, SPUN = threading.Event(), threading.Event()
"""`compute` computes; `spin` has ended."""
WORKING, DIGESTING, SEIZED = threading.Event(), threading.Event(), threading.Event()
"""`work` runs on the event loop; `digest` computes; `seize` has ended."""


class Fatal(Small):
    """One tool for each way in which code can kill or hold the process, and `wait`, which harms nobody."""

    @tool
    async def wait(self) -> ToolOutput:
        """Wait for a minute."""
        await asyncio.sleep(60)
        return said("waited", 0.0)

    @tool
    async def crash(self) -> ToolOutput:
        """Read memory that is not there, on the event loop."""
        ctypes.string_at(0)
        return said("unreachable", 0.0)

    @tool
    def crash_in_thread(self) -> ToolOutput:
        """Read memory that is not there, in a thread."""
        ctypes.string_at(0)
        return said("unreachable", 0.0)

    @tool
    def leave(self) -> ToolOutput:
        """End the process with status 0."""
        os._exit(0)

    @tool
    async def nap(self) -> ToolOutput:
        """Hold the event loop for a while."""
        time.sleep(2)  # noqa: ASYNC251
        return said("slept", 0.0)

    @tool
    async def spin(self) -> ToolOutput:
        """Compute on the event loop, as soon as `compute` runs in a thread."""
        await asyncio.to_thread(COMPUTING.wait)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            pass
        SPUN.set()
        return said("spun", 0.0)

    @tool
    def compute(self) -> ToolOutput:
        """Compute until `spin` has ended, as plain tools may, in a process with over a hundred threads."""
        for _ in range(100):
            threading.Thread(target=SPUN.wait, daemon=True).start()
        COMPUTING.set()
        while not SPUN.is_set():
            pass
        return said("computed", 0.0)

    @tool
    async def work(self) -> ToolOutput:
        """Work on the event loop until `seize`, which takes the interpreter's lock from it, has ended."""
        await asyncio.to_thread(DIGESTING.wait)
        WORKING.set()
        while not SEIZED.is_set():
            pass
        return said("worked", 0.0)

    @tool
    def digest(self) -> ToolOutput:
        """Compute in C code that has released the interpreter's lock."""
        DIGESTING.set()
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 4_000_000)
        return said("digested", 0.0)

    @tool
    def seize(self) -> ToolOutput:
        """Hold the interpreter's lock for four seconds, in C code, as soon as `work` runs.

        On a busy machine it begins late, and is seen only by the second look, after two seconds.
        """
        WORKING.wait()
        any(map((time.monotonic() + 4).__le__, iter(time.monotonic, None)))
        SEIZED.set()
        return said("seized", 0.0)

    @tool
    def hold(self) -> ToolOutput:
        """Hold the interpreter's lock for ten minutes, asleep in C code."""
        ctypes.PyDLL(None).sleep(600)
        return said("unreachable", 0.0)

    @tool
    def backtrack(self) -> ToolOutput:
        """Hold the interpreter's lock for ever: first asleep for two seconds, as on a core that others keep busy."""
        match = partial(re.compile(r"(a|aa)+b").fullmatch, "a" * 60)
        # no bytecode runs in between
        deque(map(call, (partial(ctypes.PyDLL(None).sleep, 2), match)), maxlen=0)
        return said("unreachable", 0.0)

    @tool
    def run_out_of_cpu_time(self) -> ToolOutput:
        """End as the kernel ends a process at its limit of CPU time, if there is one that two more seconds reach."""
        limit, _ = resource.getrlimit(resource.RLIMIT_CPU)
        if 0 < limit - time.process_time() <= 2:
            os.kill(os.getpid(), signal.SIGXCPU)
        return said("there is no such limit", 0.0)


class Harmless(Fatal):
    """The same class under another name, whose calls run beside those of Fatal."""


class Alone(Fatal):
    """The same class, each of whose sessions has a process of its own."""

    isolation = "session"

    @tool
    def sleep(self) -> ToolOutput:
        """Sleep for longer than a call may take."""
        time.sleep(60)
        return said("slept", 0.0)

    @tool
    async def stay(self, params: Seconds) -> ToolOutput:
        """Ignore the cancellation, and go on for a while."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(params.seconds)
        return said("stayed", 0.0)

    @tool
    def leave_a_child(self) -> ToolOutput:
        """End the process, but not a child that has its output."""
        subprocess.Popen(["sleep", "100"])
        os._exit(3)

    @tool
    def pid(self) -> ToolOutput:
        """Return the number of the process that plays the session."""
        return said(str(os.getpid()), 0.0)

    @tool
    def allocate(self) -> ToolOutput:
        """Take 2 GB of memory."""
        return said(str(len(b"\1" * (2 << 30))), 0.0)


class Together(Alone):
    """The same class, whose sessions share processes."""

    isolation = "process"


class Counting(Alone):
    """The same class, whose sessions come back after the end of their process."""

    isolation = "process"
    replayable = True

    def setup(self) -> None:
        self.count = 0

    @tool
    def step(self) -> ToolOutput:
        """Count."""
        self.count += 1
        return said(str(self.count), 1.0)

    @tool
    def step_slowly(self) -> ToolOutput:
        """Count, after a while."""
        time.sleep(0.5)
        return self.step()

    @tool
    def crash_once(self) -> ToolOutput:
        """End the process at the first call of all."""
        if "ONCE" in os.environ and not (once := Path(os.environ["ONCE"])).exists():
            once.touch()
            os._exit(5)
        return said("lives", 0.0)


class Held(Counting):
    """The same class, which notes its process and waits in the constructor, setup or a call until it may go on."""

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self._wait("constructor")

    def setup(self) -> None:
        super().setup()
        self._wait("setup")

    @tool
    async def hold_on(self) -> ToolOutput:
        """Count, once it may go on."""
        await asyncio.to_thread(self._wait, "call")
        return self.step()

    def _wait(self, place: str) -> None:
        if self.task_spec.get("waits_in") != place:
            return
        with Path(os.environ["OPENING_MARKS"]).open("a") as marks:
            marks.write(f"{os.getpid()}\n")
        while not Path(os.environ["OPENING_GOES_ON"]).exists():
            time.sleep(0.01)


class Here(Alone):
    """The same class, which is always played in the server's process."""

    isolation = "none"
