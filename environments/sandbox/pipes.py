"""The input and output of a process, passed on in bounded memory without waiting for either side.

Used by the thread that runs a program in a sandbox (`bubblewrap.py`).
"""

from __future__ import annotations

import os
import selectors
import subprocess
from contextlib import suppress
from typing import IO

_CHUNK_BYTES = 65536
MAX_DROPPED_BYTES = 16 * 1024 * 1024
"""Bytes of stderr that are discarded before the program is stopped for writing without end."""


class Pipes:
    """The three pipes of one process; `limits`: the number of bytes kept of stdout and stderr."""

    def __init__(
        self, process: subprocess.Popen[bytes], stdin: bytes, limits: tuple[int, int]
    ) -> None:
        assert process.stdin and process.stdout and process.stderr
        self._stdin, self._unsent = process.stdin, memoryview(stdin)
        self._limits = dict(zip((process.stdout, process.stderr), limits, strict=True))
        self._read: dict[IO[bytes], bytearray] = {pipe: bytearray() for pipe in self._limits}
        self._stdout, self._dropped_bytes = process.stdout, 0
        self._selector = selectors.DefaultSelector()
        for pipe in self._limits:
            self._register(pipe, selectors.EVENT_READ)
        self._register(self._stdin, selectors.EVENT_WRITE)

    def pass_on(self, seconds: float) -> bool:
        """Pass on data, waiting at most `seconds` for some. Return whether both outputs have
        ended."""
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._stdin:
                self._send()
            else:
                self._receive(key.fileobj)  # type: ignore[arg-type]  # what was registered
        pipes = {key.fileobj for key in self._selector.get_map().values()}
        return pipes.isdisjoint(self._limits)

    @property
    def has_too_much(self) -> bool:
        """Return whether stdout exceeds its limit, or too much of stderr was discarded."""
        is_full = len(self._read[self._stdout]) > self._limits[self._stdout]
        return is_full or self._dropped_bytes > MAX_DROPPED_BYTES

    def close(self) -> tuple[bytes, bytes]:
        """Close the pipes. Return what was kept of stdout and stderr; one byte more than the limit
        if there was more."""
        self._selector.close()
        with suppress(OSError):
            self._stdin.close()
        stdout, stderr = (
            bytes(self._read[pipe][: self._limits[pipe] + 1]) for pipe in self._limits
        )
        return stdout, stderr

    def _register(self, pipe: IO[bytes], events: int) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, events)

    def _send(self) -> None:
        try:
            count = os.write(self._stdin.fileno(), self._unsent[:_CHUNK_BYTES])
            self._unsent = self._unsent[count:]
        except BlockingIOError:
            return
        except OSError:  # the process has closed its stdin
            self._unsent = memoryview(b"")
        if not self._unsent:
            self._selector.unregister(self._stdin)
            with suppress(OSError):
                self._stdin.close()

    def _receive(self, pipe: IO[bytes]) -> None:
        with suppress(BlockingIOError):
            data = os.read(pipe.fileno(), _CHUNK_BYTES)
            if not data:
                self._selector.unregister(pipe)
            room = self._limits[pipe] + 1 - len(self._read[pipe])
            self._read[pipe] += data[:room]
            self._dropped_bytes += max(0, len(data) - room)
