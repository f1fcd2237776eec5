"""What an environment whose code fails in worker processes costs the agents of another: their p99
beside each fault.

Agents play `echo` in the server's process at a moderate rate. Meanwhile one agent opens sessions of
a class whose processes crash, exit, take 2 GB, hold the interpreter or block their event loop, as
often as it gets an answer.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from statistics import median

import httpx

from benchmarks.load import Load, Sample
from benchmarks.scenarios import drive
from benchmarks.servers import Workshop
from environments import Environment, TextBlock, ToolOutput, tool
from environments.wire import Blocks, JSONObject

FAULTS = {
    "segfault": "a segmentation fault",
    "leave": "os._exit",
    "allocate": "2 GB",
    "match": "a regular expression that spins",
    "block": "time.sleep in async code",
}
AGENTS, INTERVAL_SECONDS = 32, 0.1
"""Agents, and the time from one request of each to its next: 320 requests a second together."""
MAX_GROWTH = 2.0
ROUNDS = 2
TOOL_TIMEOUT_SECONDS = 2


class Faulty(Environment):
    """Each tool is a fault."""

    isolation = "process"

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return [{"id": 0}]

    async def get_prompt(self) -> Blocks:
        return [TextBlock(text="Fail.")]

    @tool
    def segfault(self) -> ToolOutput:
        """Reads memory that is not there."""
        ctypes.string_at(0)
        return _survived()

    @tool
    def leave(self) -> ToolOutput:
        """Ends the process."""
        os._exit(3)

    @tool
    def allocate(self) -> ToolOutput:
        """Writes to 2 GB."""
        memory = bytearray(2 * 2**30)
        memory[::4096] = b"x" * (len(memory) // 4096)
        return _survived()

    @tool
    def match(self) -> ToolOutput:
        """Takes hours, and the interpreter."""
        re.match(r"(a+)+$", "a" * 40 + "b")
        return _survived()

    @tool
    async def block(self) -> ToolOutput:
        """Blocks the event loop."""
        time.sleep(1)  # noqa: ASYNC251 - the fault
        return _survived()


def _survived() -> ToolOutput:
    return ToolOutput(blocks=[TextBlock(text="survived")], reward=0.0, finished=True)


def measure(workshop: Workshop, seconds: float) -> bool:
    """Print the p99 of the other environment's agents beside each fault; return whether all are
    within the target."""
    rate = AGENTS / INTERVAL_SECONDS
    print(
        f"\nfaulty: p99 of {AGENTS} agents with {rate:.0f} requests a second, while another "
        "environment fails",
        flush=True,
    )
    environments = ["echo=benchmarks.echo:Echo", "faulty=benchmarks.faulty:Faulty"]
    with workshop.serving(
        environments, settings={"ORSWEB_TOOL_TIMEOUT": str(TOOL_TIMEOUT_SECONDS)}
    ) as (port, _, pid):
        load = Load(
            agents=AGENTS,
            interval_seconds=INTERVAL_SECONDS,
            seconds=seconds,
            port=port,
            processes={"server": pid},
        )
        drive(load)
        samples: dict[str, list[Sample]] = {fault: [] for fault in ("", *FAULTS)}
        failed = dict.fromkeys(FAULTS, 0)
        for _ in range(ROUNDS):
            samples[""].append(drive(load))
            for fault in FAULTS:
                with _failing(port, fault) as counted:
                    samples[fault].append(drive(load))
                failed[fault] += len(counted)
    quiet = median(one.p99_ms for one in samples.pop(""))
    print(f"  quiet: {quiet:.1f} ms")
    met = True
    for fault, found in samples.items():
        p99 = median(one.p99_ms for one in found)
        met &= p99 <= quiet * MAX_GROWTH
        verdict = "PASS" if p99 <= quiet * MAX_GROWTH else "FAIL"
        growth = f"{p99:.1f} ms, {p99 / quiet:.1f} times (target: at most {MAX_GROWTH:g})"
        print(f"  {verdict}  {FAULTS[fault]}, {failed[fault]} times: {growth}")
    return (
        met
        and all(failed.values())
        and not any(one.errors for found in samples.values() for one in found)
    )


@contextmanager
def _failing(port: int, fault: str) -> Iterator[list[int]]:
    """Let an agent call the tool in one session after another; yields a list that grows by one with
    each call."""
    calls, is_over = list[int](), threading.Event()

    def play() -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            while not is_over.is_set():
                with suppress(httpx.HTTPError):
                    _fail(client, fault)
                    calls.append(1)

    agent = threading.Thread(target=play, daemon=True)
    agent.start()
    try:
        yield calls
    finally:
        is_over.set()
        agent.join()


def _fail(client: httpx.Client, fault: str) -> None:
    sid = {"X-Session-ID": os.urandom(8).hex()}
    task = {"env_name": "faulty", "split": "train", "index": 0}
    client.post("/create", json=task, headers=sid).raise_for_status()
    client.post("/faulty/call", json={"name": fault, "input": {}}, headers=sid)
    client.post("/delete", headers=sid)
