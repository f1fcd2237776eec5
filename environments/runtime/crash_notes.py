"""Which code of environments runs now, noted in a mapped file that outlives the process.

Code of an environment may end the process at any instruction. The kernel keeps what was written to
the map, so the supervisor and the next server can say what ran. A note costs no system call. It
holds only a hash of the input, which may contain secrets and is not recorded yet.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar, Token
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

MAX_NOTES = 16_384
"""Calls that are noted at once. Further ones run without a note."""
MAX_HASHED_CHARACTERS = 1_000_000
"""Longest input that is hashed; a longer one would delay the event loop by over a millisecond."""

_RAN = -2
"""Episode in the note of a call of episode 0 that has run; those of others are lower."""
# episode, since, thread, its number in the system, hash, environment, what
_NOTE = struct.Struct("<qdQQ16sH78s")
_EPISODE = struct.Struct("<q")
# the first two fields of a note: of a call that has run, its episode and the step's index
_STEP = struct.Struct("<qd")
_THREAD = struct.Struct("<QQ")
_THREAD_OFFSET = 16


@dataclass(frozen=True, slots=True)
class NotedCall:
    """A piece of code that ran when the file was read."""

    environment: str
    episode: int
    what: str
    """Name of the tool, or `constructor`, `setup`, `prompt`, …"""
    since: float
    input_hash: str
    """BLAKE2b-128 of the recorded input, in hexadecimal; empty if there is none."""
    thread: int
    """Identifier of the thread that runs it, as `threading.get_ident` returns it; 0: the event
    loop."""
    thread_number: int
    """The thread's number in the operating system; 0: the event loop."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class CallNote:
    """The note of one piece of code, which has to be entered and left by the task that runs it."""

    __slots__ = ("_notes", "_offset", "_token", "input_digest", "is_kept")

    def __init__(self, notes: CrashNotes, offset: int, input_digest: bytes) -> None:
        self._notes, self._offset, self.input_digest = notes, offset, input_digest
        self._token: Token[CallNote | None] | None = None
        self.is_kept = False
        """Whether the note stays when the code has run, until `forget`."""

    def __enter__(self) -> Self:
        self._token = CURRENT.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._token is not None
        CURRENT.reset(self._token)
        self._token = None  # it refers to the task's context
        if not self.is_kept:
            self.forget()

    def note_step(self, episode: int, index: int) -> None:
        """Note that the code has run as this step, whose result has not been sent yet."""
        if self._offset:
            self._notes.note_step(self._offset, episode, index)

    def forget(self) -> None:
        """Delete the note."""
        if self._offset:
            self._notes.forget(self._offset)
            self._offset = 0

    def read(self) -> NotedCall | None:
        """Return what was noted; None if the code has ended, or is not noted."""
        return self._notes.read(self._offset) if self._offset else None

    def enter_thread(self) -> None:
        """Note that the code runs in the calling thread."""
        if offset := self._offset:  # otherwise the code has ended, and the place may be another's
            self._notes.note_thread(offset)


CURRENT: ContextVar[CallNote | None] = ContextVar("running_call", default=None)
"""The note of the code that the current task runs, for the threads to which it hands the work."""


class CrashNotes:
    """The notes of this process. Used on the event loop, except for `CallNote.enter_thread`."""

    def __init__(
        self, directory: Path | None = None, sources: dict[str, list[str]] | None = None
    ) -> None:
        """Replace the notes in `directory`; without one, keep them in memory that ends with the
        process.

        `sources`: the files with the code of each environment.
        """
        names = list(sources or ())
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        size = (MAX_NOTES + 1) * _NOTE.size
        self._memory = (
            mmap.mmap(-1, size)
            if directory is None
            else mapped_file(directory / "running_calls", size)
        )
        self._next = _NOTE.size  # 0 is the place of calls that are not noted
        self._free: list[int] = []
        if directory is not None:
            (directory / "environments.json").write_text(
                json.dumps({"names": names, "sources": sources or {}})
            )

    def note(self, episode: int, environment: str, what: str, input_json: str = "") -> CallNote:
        """Note that code of `environment` is about to run: a context manager, to be entered at
        once."""
        if self._free:
            offset = self._free.pop()
        elif (offset := self._next) + _NOTE.size <= len(self._memory):
            self._next += _NOTE.size
        else:
            offset = 0
        digest = _digest_of(input_json)
        name, about = self._numbers.get(environment, 0), what.encode("utf-8", "replace")
        note = (episode or -1, time.time(), 0, 0, digest, name, about)
        _NOTE.pack_into(self._memory, offset, *note)
        return CallNote(self, offset, digest)

    def read(self, offset: int) -> NotedCall:
        return _noted_call(list(self._numbers), *_NOTE.unpack_from(self._memory, offset))

    def forget(self, offset: int) -> None:
        _EPISODE.pack_into(self._memory, offset, 0)
        self._free.append(offset)

    def note_step(self, offset: int, episode: int, index: int) -> None:
        _STEP.pack_into(self._memory, offset, _RAN - episode, index)

    def note_thread(self, offset: int) -> None:
        _THREAD.pack_into(
            self._memory, offset + _THREAD_OFFSET, threading.get_ident(), threading.get_native_id()
        )


def hash_of(input_json: str) -> str:
    """Return what `NotedCall.input_hash` is for a call with the recorded input."""
    return _digest_of(input_json).hex()


def _digest_of(input_json: str) -> bytes:
    if not input_json or len(input_json) > MAX_HASHED_CHARACTERS:
        return b""
    return hashlib.blake2b(input_json.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def mapped_file(path: Path, size: int) -> mmap.mmap:
    """Return a new file of zeros as memory. Only this user may read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.ftruncate(file, size)
        return mmap.mmap(file, size)
    finally:
        os.close(file)


def read_running_calls(directory: Path) -> list[NotedCall]:
    """Return what runs in the process that keeps its notes in `directory`, or ran when it died."""
    try:
        names = json.loads((directory / "environments.json").read_text())["names"]
    except (OSError, ValueError):
        return []
    return [_noted_call(names, *fields) for fields in _notes(directory) if fields[0] > _RAN]


def read_unsent_steps(directory: Path) -> dict[int, dict[int, NotedCall]]:
    """Return the steps whose results that process had not sent when it died.

    By episode and index of the step: the call.
    """
    calls: dict[int, dict[int, NotedCall]] = {}
    for episode, index, *fields in _notes(directory):
        if episode <= _RAN:
            number = _RAN - episode
            calls.setdefault(number, {})[int(index)] = _noted_call([], number, 0.0, *fields)
    return calls


def _notes(directory: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of each note."""
    try:
        content = (directory / "running_calls").read_bytes()
    except OSError:
        return
    content = content[_NOTE.size : len(content) - len(content) % _NOTE.size]
    yield from (fields for fields in _NOTE.iter_unpack(content) if fields[0])


def _noted_call(
    names: list[str],
    episode: int,
    since: float,
    thread: int,
    number: int,
    digest: bytes,
    name: int,
    what: bytes,
) -> NotedCall:
    return NotedCall(
        environment=names[name - 1] if 0 < name <= len(names) else "",
        episode=max(episode, 0),
        what=what.rstrip(b"\0").decode("utf-8", "replace"),
        since=since,
        input_hash=digest.hex() if any(digest) else "",
        thread=thread,
        thread_number=number,
    )


def read_sources(directory: Path) -> dict[str, list[str]]:
    """Return the files with the code of each environment, as the process wrote them at its
    start."""
    try:
        return dict(json.loads((directory / "environments.json").read_text())["sources"])
    except (OSError, ValueError):
        return {}
