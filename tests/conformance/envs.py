"""Environments of the conformance tests alone: Blocking, OrsBlocking, Pictures, Many and
Printing."""

from __future__ import annotations

import base64
import os
import random
import subprocess
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path

import ors

from environments import Blocks, ImageBlock, JSONObject, TextBlock, ToolOutput, tool
from tests.envs_base import Small, said
from tests.envs_ors import Small as OrsSmall
from tests.envs_ors import said as ors_said

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n not really").decode()
MAX_BLOCKED_SECONDS = 120


def block_until(path: str) -> None:
    """Block until the file `path` exists."""
    last = time.monotonic() + MAX_BLOCKED_SECONDS
    while not Path(path).exists() and time.monotonic() < last:
        time.sleep(0.02)


class Blocking(Small):
    """Plain code that blocks its thread in the stage that the task's `where` names, until the file `until` exists."""

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self._block("constructor")

    def setup(self) -> None:
        self._block("setup")

    def get_prompt(self) -> Blocks:
        self._block("prompt")
        return [TextBlock(text="Wait.")]

    @tool
    def work(self) -> ToolOutput:
        """Do what the task says."""
        self._block("tool")
        return said("done", 1.0, finished=True)

    def _block(self, where: str) -> None:
        if self.task_spec.get("where") == where:
            self.note(f"{where} blocks")
            block_until(str(self.task_spec["until"]))


class Printing(Small):
    """Prints the secret `token` in every way there is, with the way before it."""

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.token = secrets.get("token", "")

    @tool
    def print_whole(self) -> ToolOutput:
        """Print it."""
        print(f"stdout {self.token}")
        print(f"stderr {self.token}", file=sys.stderr)
        warnings.warn(f"warnings {self.token}", stacklevel=1)
        try:
            raise ValueError(f"print_exc {self.token}")
        except ValueError:
            traceback.print_exc()
        for output in (1, 2):
            os.write(output, f"os.write({output}) {self.token}\n".encode())
        subprocess.run(["echo", f"program {self.token}"], check=True)
        thread = threading.Thread(target=int, args=[f"thread {self.token}"])
        thread.start()
        thread.join()
        return said("printed")

    @tool
    def print_line(self) -> ToolOutput:
        """Print it in a line, with what clears a terminal."""
        print(f"\x1b[2Jline {self.token}")
        return said("printed")

    @tool
    def print_in_parts(self) -> ToolOutput:
        """Print it in parts, and within what is no line of text."""
        middle = len(self.token) // 2
        for output in (1, 2):
            os.write(output, f"part {self.token[:middle]}".encode())
            time.sleep(0.05)  # the first part has been read
            os.write(output, f"{self.token[middle:]}\n".encode())
            os.write(output, f"\rprogress {self.token}\r".encode())
            os.write(output, b"binary \xff " + self.token.encode() + b"\n")
            os.write(output, b"x" * 200_000 + self.token.encode() + b"\n")
            os.write(output, f"{output} is done\n".encode())
        return said("printed")

    @tool
    def crash(self) -> ToolOutput:
        """Print it and end the process."""
        os.write(2, f"last words {self.token}\n".encode())
        os.abort()


FILL_BYTES = 16_000_000
"""More than the kernel holds of an answer that nobody reads."""


class Filling(Small):
    """Has a tool with a long output."""

    @tool
    def fill(self) -> ToolOutput:
        """Return so many characters, which cannot be compressed well."""
        return said(random.Random(0).randbytes(FILL_BYTES // 2).hex())


class PrintingApart(Printing):
    """Printing in a worker process."""

    isolation = "process"


class OrsBlocking(OrsSmall):
    """Blocking as an `ors` class, whose plain code has one thread per session."""

    @ors.tool
    def work(self) -> ors.ToolOutput:
        """Block."""
        with Path(str(self.task_spec["log"])).open("a") as log:
            log.write("tool blocks\n")
        block_until(str(self.task_spec["until"]))
        return ors_said("done", 1.0, finished=True)


class Pictures(Small):
    """Shows images: one in the prompt, and one in the result of `look`."""

    def get_prompt(self) -> Blocks:
        return [
            TextBlock(text="What is this?"),
            ImageBlock(data=PIXEL, mimeType="image/png", detail={"size": "low"}),
        ]

    @tool
    async def look(self) -> ToolOutput:
        """Look again."""
        picture = ImageBlock(data=PIXEL, mimeType="image/png")
        return ToolOutput(
            blocks=[TextBlock(text="again"), picture], metadata={"seen": 2}, reward=0.0
        )


MANY = 4000
"""Tasks of Many, enough that a bulk action can be stopped in its middle."""


class Many(Blocking):
    """One split of many tasks."""

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return [{"n": n} for n in range(MANY)]
