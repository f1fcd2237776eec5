"""Environments that are slow or wait for the test: Slow, Gated, SlowSetup, BlockingSetup,
SlowTeardown."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable

from environments import ToolOutput, tool
from tests.envs_base import Gate, Seconds, Small, Text, said


class Slow(Small):
    """`sleep` blocks its thread, `wait` is async; both log their start and end."""

    @tool
    def sleep(self, args: Seconds) -> ToolOutput:
        """Block for so many seconds."""
        self.note("sleep starts")
        time.sleep(args.seconds)
        self.note("sleep ends")
        return said("slept", 0.1)

    @tool
    async def wait(self, args: Seconds) -> ToolOutput:
        """Wait for so many seconds."""
        self.note("wait starts")
        try:
            await asyncio.sleep(args.seconds)
        except asyncio.CancelledError:
            self.note("wait cancelled")
            raise
        self.note("wait ends")
        return said("waited", 0.1)

    @tool
    async def echo(self, args: Text) -> ToolOutput:
        """Say it again at once."""
        return said(args.text, 0.1)

    def teardown(self) -> None:
        self.note("teardown")


GATES: defaultdict[str, threading.Event] = defaultdict(threading.Event)
"""Gates that a test in this process opens: `GATES[name].set()`. A call with an empty name passes at
once."""

PASSED: list[str] = []
"""Events of Gated's tools, in order: "hold a starts", "hold a ends", …"""


class Gated(Small):
    """Tools of every kind that wait until the test opens their gate; better than Slow where no time is measured."""

    @tool
    async def hold(self, args: Gate) -> ToolOutput:
        """Ordinary: one call at a time."""
        return await self._pass("hold", args.gate)

    @tool
    async def other(self, args: Gate) -> ToolOutput:
        """Ordinary, and not hindered by `hold`."""
        return await self._pass("other", args.gate)

    @tool(concurrent=True)
    async def glance(self, args: Gate) -> ToolOutput:
        """Any number at a time."""
        return await self._pass("glance", args.gate)

    @tool(exclusive=True)
    async def grade(self, args: Gate) -> ToolOutput:
        """Alone, and the last."""
        return (await self._pass("grade", args.gate)).model_copy(update={"finished": True})

    @tool
    def block(self, args: Gate) -> ToolOutput:
        """Plain code that blocks its thread."""
        PASSED.append(f"block {args.gate} starts")
        if args.gate:
            GATES[args.gate].wait(timeout=30)
        PASSED.append(f"block {args.gate} ends")
        return said(args.gate, 0.1)

    async def _pass(self, name: str, gate: str) -> ToolOutput:
        PASSED.append(f"{name} {gate} starts")
        # a gate may be opened in any thread and waited for on any loop, so it is polled
        while gate and not GATES[gate].is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        PASSED.append(f"{name} {gate} ends")
        return said(gate, 0.1)


class Patient(Small):
    """`echo` and `finish` of Echo, without delay; subclasses define what is slow."""

    @tool
    async def echo(self, args: Text) -> ToolOutput:
        """Say it again."""
        self.note(f"echo {args.text}")
        return said(args.text, 0.1)

    @tool
    async def finish(self) -> ToolOutput:
        """End the episode."""
        return said("bye", 0.5, finished=True)

    def teardown(self) -> Awaitable[None] | None:
        self.note("teardown")
        return None


class SlowSetup(Patient):
    """Setup waits for the task's `seconds` (default 0.3) without blocking its thread."""

    async def setup(self) -> None:
        self.note("setup starts")
        await asyncio.sleep(self.task_spec.get("seconds", 0.3))
        self.note("setup ends")


class BlockingSetup(Patient):
    """Setup blocks its thread for `seconds` of the task (default 0.3)."""

    def setup(self) -> None:
        self.note("setup starts")
        time.sleep(self.task_spec.get("seconds", 0.3))
        self.note("setup ends")


class SlowTeardown(Patient):
    """Teardown takes `seconds` of the task (default 0.3)."""

    async def teardown(self) -> None:
        self.note("teardown starts")
        await asyncio.sleep(self.task_spec.get("seconds", 0.3))
        self.note("teardown ends")


class GatedSetup(Patient):
    """Setup waits until the gate that the task names is open, and then fails if the task has
    `fails`."""

    async def setup(self) -> None:
        while not GATES[self.task_spec["gate"]].is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        if self.task_spec.get("fails"):
            raise RuntimeError("the setup gave up late")
