"""Random ids of sessions and calls: UUID4s, made cheaply from a buffer of system randomness."""

from __future__ import annotations

import os

_BUFFERED_IDS = 256
_buffer = b""
_position = 0


def new_session_id() -> str:
    """Return a new session id: a UUID4 with dashes."""
    digits = new_task_id()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_task_id() -> str:
    """Return a UUID4 as 32 hex digits, assembled as text because a uuid.UUID takes several times as
    long."""
    global _buffer, _position
    if _position >= len(_buffer):
        _buffer, _position = os.urandom(16 * _BUFFERED_IDS), 0
    digits = _buffer[_position : _position + 16].hex()
    _position += 16
    return f"{digits[:12]}4{digits[13:16]}{'89ab'[int(digits[16], 16) & 3]}{digits[17:]}"
