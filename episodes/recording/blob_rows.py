"""The rows of blobs, as the recorder, imports and redactions write them.

The key of a blob is the digest of its content. That of a large one is the digest of what is stored,
mostly a quarter as long: its content has to be compressed to learn whether the database has it, but
large contents rarely occur twice.
"""

from __future__ import annotations

import threading
from collections.abc import Container

import zstandard

from environments.database.bulk_writer import Values
from environments.database.storable import digest_of
from episodes.models.blobs import MAX_DIGESTED_BYTES

MAX_UNCOMPRESSED_BYTES = 512
"""Larger blobs are compressed if that makes them smaller; zstandard takes a quarter of zlib's time
or less."""
_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(1)
"""Those of level 1 for contents over 256 KB, which look for repetitions of seven bytes, for smaller
ones, too.

Those for 20 KB (six bytes) take 6 % longer, and make real texts 1.5 % smaller.
"""
BLOB_COLUMNS = ("digest", "is_compressed", "size_bytes", "data")

_thread = threading.local()
"""`compressor`: that of this thread. Creating one takes ten times as long as using it."""


class BlobRows:
    """Collects the rows of new blobs."""

    def __init__(self, known_keys: Container[str] = ()) -> None:
        """`known_keys`: keys of blobs that the database has."""
        self._known = known_keys
        self.by_key: dict[str, Values] = {}
        """The values of BLOB_COLUMNS."""

    def in_order(self) -> list[Values]:
        """Return the rows in the order in which all transactions write them, or those of two
        servers would deadlock."""
        return sorted(self.by_key.values())

    def add(self, text: str, digest: bytes = b"") -> str:
        """Add the blob with the text, unless it is known, and return its key.

        `digest`: of the text, if it has been computed.
        """
        content = text.encode()
        if len(content) > MAX_DIGESTED_BYTES:
            is_compressed, data = stored(content)
            key = digest_of(data)
            if key not in self._known:
                self.by_key[key] = (key, is_compressed, len(content), data)
            return key
        key = digest.hex() or digest_of(content)
        if key not in self._known and key not in self.by_key:
            is_compressed, data = stored(content)
            self.by_key[key] = (key, is_compressed, len(content), data)
        return key


def stored(content: bytes) -> tuple[bool, bytes]:
    """Return whether the content is stored compressed, and what is stored."""
    if len(content) <= MAX_UNCOMPRESSED_BYTES:
        return False, content
    if not hasattr(_thread, "compressor"):
        _thread.compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)
    data: bytes = _thread.compressor.compress(content)
    return (True, data) if len(data) < len(content) else (False, content)


def is_key(key: str, content: bytes, data: bytes) -> bool:
    """Return whether a blob with this content, stored as `data`, may have the key.

    Earlier versions digested the content of large blobs, too.
    """
    return key == digest_of(content) or (
        len(content) > MAX_DIGESTED_BYTES and key == digest_of(data)
    )
