"""Notes which environment's code has started a program, so that Incidents can name it if the
program is left running.

A program has no trace of that: its name and environment variables are its own. So an audit hook of
Python notes a digest of each command line in a file that is mapped to memory and outlives the
server.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from environments.runtime.crash_notes import CURRENT

PLACES = 4096
"""Of command lines that share one, the later is kept."""
_EVENTS = frozenset({"subprocess.Popen", "os.posix_spawn"})
_PLACE = struct.Struct("<16s8s")  # digests of the command line and of the environment's name


def note_starts(directory: Path) -> None:
    """Note from now on which programs are started by code of environments in this process, and
    those that it forks."""
    memory = _map_notes(directory)

    def look(event: str, details: tuple[Any, ...]) -> None:
        if event in _EVENTS:
            with suppress(Exception):  # the program's starter would get it
                note = CURRENT.get()
                if call := note and note.read():
                    line = b"".join(os.fsencode(word) + b"\0" for word in details[1])
                    command, environment = _digest(line, 16), _digest(call.environment.encode(), 8)
                    _PLACE.pack_into(memory, _offset(command), command, environment)

    sys.addaudithook(look)


def environment_of(directory: Path, command: bytes, environments: Iterable[str]) -> str:
    """Return which of `environments` was the last to start a program with that command line, as
    /proc has it; empty if none of them has."""
    digest = _digest(command, 16)
    noted_digest, environment = _PLACE.unpack_from(_map_notes(directory), _offset(digest))
    if noted_digest != digest:
        return ""
    return next((name for name in environments if _digest(name.encode(), 8) == environment), "")


def _map_notes(directory: Path) -> mmap.mmap:
    """Return the notes, also those of earlier servers, whose programs may still run."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(directory / "programs", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.ftruncate(file, PLACES * _PLACE.size)
        return mmap.mmap(file, PLACES * _PLACE.size)
    finally:
        os.close(file)


def _offset(digest: bytes) -> int:
    return int.from_bytes(digest[:4]) % PLACES * _PLACE.size


def _digest(text: bytes, size: int) -> bytes:
    return hashlib.blake2b(text, digest_size=size).digest()
