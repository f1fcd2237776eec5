"""The images that pages show and models take, and what is wrong with the type or data of others."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable
from typing import Any

MODEL_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Types that the providers of models take, and ATIF: those of all that is made for models."""
IMAGE_TYPES = (*MODEL_IMAGE_TYPES, "image/avif", "image/bmp")
"""Types that browsers show. SVG is not one of them, because it is a document with scripts."""
MAX_TYPE_CHARACTERS = 60

_BASE64 = re.compile(r"[A-Za-z0-9+/]*+={0,2}")
_START_CHARACTERS = 64
"""Characters of base64 that hold the beginnings below."""
_STARTS = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
    # an AVIF may also be of the brand mif1, as a HEIC is, and name avif among the compatible ones
    "image/avif": re.compile(rb"....ftyp(?:avi[fs]|m[is]f1....(?:....)*?avi[fs])", re.DOTALL),
    "image/bmp": re.compile(rb"BM"),
    "image/tiff": re.compile(rb"II\*\0|MM\0\*"),
    "image/heic": re.compile(rb"....ftyp(?:hei[cxms]|hev[cxms]|mif1|msf1)", re.DOTALL),
    "image/svg+xml": re.compile(rb"\s*<(?:svg|\?xml)"),
}

_MAX_SIZE_CHARACTERS = 512 * 1024
"""Characters of base64 in which the size of a JPEG is looked for; it follows what cameras write."""
_JPEG_FRAME = re.compile(rb"[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]")


def image_size(data: str) -> tuple[int, int] | None:
    """Return the width and height of an image (base64) in pixels; None if its beginning doesn't say
    them."""
    start = base64.b64decode(data[: 16 * _START_CHARACTERS])
    kind = next((name for name, pattern in _STARTS.items() if pattern.match(start)), "")
    try:
        if kind == "image/jpeg":
            start = base64.b64decode(data[:_MAX_SIZE_CHARACTERS])
        width, height = _SIZES[kind](start)
    except (KeyError, ValueError, IndexError, struct.error):  # of another kind, or cut off
        return None
    return (width, abs(height)) if width > 0 and height else None


def _jpeg_size(content: bytes) -> tuple[int, ...]:
    """Return what the frame says, which comes after segments with their lengths."""
    place = 2
    while not _JPEG_FRAME.match(content, place + 1):
        place += 2 + int(struct.unpack_from(">H", content, place + 2)[0])
    return struct.unpack_from(">HH", content, place + 5)[::-1]


def _webp_size(start: bytes) -> tuple[int, ...]:
    kind = start[12:16]
    if kind == b"VP8X":
        return tuple(1 + int.from_bytes(start[at : at + 3], "little") for at in (24, 27))
    if kind == b"VP8L":
        bits = int.from_bytes(start[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return tuple(side & 0x3FFF for side in struct.unpack_from("<HH", start, 26))


_SIZES: dict[str, Callable[[bytes], tuple[int, ...]]] = {
    "image/png": lambda start: struct.unpack_from(">II", start, 16),
    "image/jpeg": _jpeg_size,
    "image/gif": lambda start: struct.unpack_from("<HH", start, 6),
    "image/bmp": lambda start: struct.unpack_from("<ii", start, 18),
    "image/webp": _webp_size,
    "image/avif": lambda start: struct.unpack_from(">II", start, start.index(b"ispe") + 8),
}


def image_problem(kind: Any, data: Any, image_types: tuple[str, ...] = MODEL_IMAGE_TYPES) -> str:
    """Return what is wrong with the type or the data (base64) of an image, as a clause; empty for a
    sound one.

    Only the beginning of the data is read; what is damaged further on is seen by who decodes it.
    """
    types = f"{', '.join(image_types[:-1])} or {image_types[-1]}"
    if not isinstance(kind, str) or not kind:
        return f"the type is missing; use {types}"
    if not isinstance(data, str) or not data:
        return "the data is empty"
    if len(data) % 4 or not _BASE64.fullmatch(data):
        return "the data is not base64"
    start = base64.b64decode(data[:_START_CHARACTERS])
    content = next((name for name, pattern in _STARTS.items() if pattern.match(start)), "")
    if kind == content and kind in image_types:
        return ""
    if kind in image_types:
        return f"the data is {content or 'no image'}, but the type is {kind}"
    if len(kind) > MAX_TYPE_CHARACTERS:
        kind = f"{kind[:MAX_TYPE_CHARACTERS]}…"
    advice = content if content in image_types else types
    return f"the type {kind!r} is not allowed; use {advice}"
