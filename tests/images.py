"""Images that no model takes, as type and data of a block."""

from __future__ import annotations

BAD_IMAGES = [
    ("text/html", "PGgxPg=="),
    ("image/png", ""),
    ("image/png", "/9j/4AAQ"),  # a JPEG
    ("image/png\u200b", "iVBORw0KGgo="),
    ("image/avif", "AAAAGGZ0eXBhdmlm"),
    ("image/bmp", "Qk0AAAAA"),
    ("image/svg+xml", "PHN2Zz4="),
]
