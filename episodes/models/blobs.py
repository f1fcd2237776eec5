"""The model Blob, and how the texts of many blobs are read."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import zstandard
from django.db import models

from environments.database.json_rows import rows_among

MAX_DIGESTED_BYTES = 256 * 1024
"""Longest content whose digest is the key of its blob. That of a larger one is the digest of what
is stored."""
BLOBS_AT_ONCE = 8
"""Blobs that are in memory together, compressed, while many are read."""
_BLOBS = (
    "SELECT digest, data, is_compressed FROM episodes_blob WHERE size_bytes <= %s AND digest "
    "{among}"
)

_thread = threading.local()
"""`decompressor`: that of this thread. Making one costs half as much as using it for 20 KB."""


class Blob(models.Model):
    """Content of any size that is stored once: prompts, tool lists, large inputs and outputs."""

    digest = models.CharField(
        max_length=32,
        primary_key=True,
        help_text="blake2b-128, hexadecimal: of the content, or of `data` if it is large",
    )
    is_compressed = models.BooleanField(default=False, help_text="By zstandard")
    size_bytes = models.PositiveBigIntegerField(help_text="Before compression")
    data = models.BinaryField()

    def __str__(self) -> str:
        return self.digest

    @property
    def text(self) -> str:
        return _text(self.data, is_compressed=self.is_compressed)


def texts_of_blobs(
    digests: Iterable[str], max_bytes: int, at_once: int = BLOBS_AT_ONCE
) -> Iterator[tuple[str, str]]:
    """Yield the digest and the text of each of the blobs that have at most `max_bytes`.

    Without Django's objects, which take longer than decompressing 20 KB.
    """
    keys = list(digests)
    for start in range(0, len(keys), at_once):
        for digest, data, is_compressed in rows_among(
            _BLOBS, [max_bytes], keys[start : start + at_once]
        ):
            yield digest, _text(data, is_compressed=is_compressed)


def _text(data: bytes | memoryview[int], *, is_compressed: bool) -> str:
    if is_compressed:
        if not hasattr(_thread, "decompressor"):
            _thread.decompressor = zstandard.ZstdDecompressor()
        data = _thread.decompressor.decompress(data)
    return bytes(data).decode("utf-8")
