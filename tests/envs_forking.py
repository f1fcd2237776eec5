"""An environment that starts processes in each way and leaves them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from environments import Blocks, Environment, JSONObject, TextBlock, ToolOutput, tool

_left: list[Any] = []


class Forking(Environment):
    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"id": 1}]

    def get_prompt(self) -> Blocks:
        return [TextBlock(text="Start processes.")]

    @tool
    def leave(self) -> ToolOutput:
        """Start a pool, a process that ignores signals, its child, a program with all descriptors, and a daemon."""
        pool = multiprocessing.get_context("fork").Pool(1)
        sleeper = os.fork() or _sleep()
        program = subprocess.Popen(["sleep", "600"], close_fds=False)
        daemon = subprocess.Popen(
            [sys.executable, "-S", "-c", DAEMON], stdout=subprocess.PIPE, text=True
        )
        _left.append((pool, program))
        pids = [pool.apply(os.getpid), sleeper, program.pid, int(daemon.communicate()[0])]
        return ToolOutput(blocks=[TextBlock(text=" ".join(map(str, pids)))])

    @tool
    def terminate(self) -> ToolOutput:
        """End the processes of a pool as `multiprocessing` does, by SIGTERM."""
        with multiprocessing.get_context("fork").Pool(2) as pool:
            pool.map(abs, [1, 2])
        pool.join()
        return ToolOutput(blocks=[TextBlock(text="ended")])


DAEMON = """
import os
if os.fork():
    os._exit(0)
os.setsid()
pid = os.fork()
if pid:
    os.write(1, str(pid).encode())
    os._exit(0)
os.close(1)
os.execvp("sleep", ["sleep", "600"])
"""


def _sleep() -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    if not os.fork():
        os.setsid()
    while True:
        time.sleep(600)
