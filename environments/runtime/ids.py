"""Random identifiers, cheaply: UUID4s from a buffer of system randomness."""

from __future__ import annotations

import os
import uuid

_BUFFERED = 256
_buffer = b""
_position = 0


def _sixteen_bytes() -> bytes:
    global _buffer, _position
    if _position >= len(_buffer):
        _buffer, _position = os.urandom(16 * _BUFFERED), 0
    _position += 16
    return _buffer[_position - 16 : _position]


def new_session_id() -> str:
    """A UUID4 with dashes."""
    return str(uuid.UUID(bytes=_sixteen_bytes(), version=4))


def new_task_id() -> str:
    """128 random bits as 32 hex digits, with the version and variant of a UUID4."""
    digits = _sixteen_bytes().hex()
    return f"{digits[:12]}4{digits[13:16]}{'89ab'[int(digits[16], 16) & 3]}{digits[17:]}"
