"""Notes, in a mapped file that outlives the process, from which sessions without an environment are
opened again.

`ors-sdk` opens a session by split and index, and the path of its first call names the environment,
so no episode is on record before. Only the newest sessions have a note: an older one has long been
bound by its next request. A note costs no system call and holds secrets only encrypted.
Where several servers share the database, leases keep the same
(`environments/cluster/takeover.py`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path

from environments.runtime.crash_notes import mapped_file
from environments.runtime.session_request import SessionRequest

NOTES = 4_096
"""Number of sessions that have a note. A further one takes the place of the oldest."""
_NOTE_BYTES = 1_024
_LENGTH = struct.Struct("<H")
_FILE = "openings"


class OpeningNotes:
    """The notes of a server that has its database alone, which are its `SessionPlaces`. Used on the
    event loop."""

    def __init__(self, directory: Path) -> None:
        """Replace the notes in `directory`."""
        self._memory = mapped_file(directory / _FILE, NOTES * _NOTE_BYTES)
        self._sids = [""] * NOTES
        self._places: dict[str, int] = {}
        self._next = 0

    @classmethod
    async def of(cls, directory: Path, sessions: Iterable[object]) -> OpeningNotes:
        """Replace the notes in `directory` by those of the sessions without an environment among
        `sessions`."""
        notes = cls(directory)
        for session in sessions:
            if isinstance(session, SessionRequest):
                await notes.claim(session.sid, session.opening_json())
        return notes

    async def claim(self, sid: str, opening: str) -> None:
        """Note what opens the session again. Without `opening`, or if it is too long, the session
        has no note."""
        note = json.dumps([sid, opening]).encode() if opening else b""
        if not 0 < len(note) <= _NOTE_BYTES - _LENGTH.size:
            return
        place, self._next = self._next, (self._next + 1) % NOTES
        self._places.pop(self._sids[place], None)
        self._sids[place], self._places[sid] = sid, place
        begin = place * _NOTE_BYTES + _LENGTH.size
        self._set_length(place, 0)  # the process may end before the note is complete
        self._memory[begin : begin + len(note)] = note
        self._set_length(place, len(note))

    def release(self, sid: str) -> None:
        """Delete the note of a session that has ended, or was not opened."""
        if (place := self._places.pop(sid, None)) is not None:
            self._sids[place] = ""
            self._set_length(place, 0)

    def _set_length(self, place: int, length: int) -> None:
        _LENGTH.pack_into(self._memory, place * _NOTE_BYTES, length)


def read_openings(directory: Path) -> list[SessionRequest]:
    """Return the requests that open again the sessions noted in `directory`."""
    try:
        content = (directory / _FILE).read_bytes()
    except OSError:
        return []
    requests = []
    for begin in range(0, len(content), _NOTE_BYTES):
        [length] = _LENGTH.unpack_from(content, begin)
        begin += _LENGTH.size
        if not length:
            continue
        try:
            sid, opening = json.loads(content[begin : begin + length])
        except ValueError:  # a disk lost a part of it
            continue
        requests.append(SessionRequest.from_opening(sid, opening))
    return requests
