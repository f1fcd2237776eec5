"""Blobs: texts of blobs in bounded memory. Used by `source.py`, within one export.

Small ones are fetched many at a time and kept while there is room, for episodes of one environment share their tools;
a large one is fetched when it is asked for and not kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from episodes.models import Blob

SMALL_BYTES = 64 * 1024
MOST_KEPT_BYTES = 8 * 1024 * 1024
LOOKUP_SIZE = 500


class Blobs:
    def __init__(self) -> None:
        self._kept: dict[str, str] = {}
        self._kept_bytes = 0

    def prepare(self, digests: Iterable[str | None]) -> None:
        """Fetch those that are small, as many as there is room for."""
        missing = list({digest for digest in digests if digest and digest not in self._kept})
        for start in range(0, len(missing), LOOKUP_SIZE):
            self._fetch(self._fitting(missing[start : start + LOOKUP_SIZE]))

    def text(self, digest: str | None) -> str:
        """The content; empty for none."""
        if digest is None:
            return ""
        return self._kept[digest] if digest in self._kept else Blob.objects.get(pk=digest).text

    def _fitting(self, digests: list[str]) -> list[str]:
        sizes = Blob.objects.filter(pk__in=digests, size_bytes__lte=SMALL_BYTES).values_list("pk", "size_bytes")
        fitting, size_bytes = list[str](), 0
        for digest, size in sizes:
            if size_bytes + size <= MOST_KEPT_BYTES:
                fitting.append(digest)
                size_bytes += size
        if self._kept_bytes + size_bytes > MOST_KEPT_BYTES:
            self._kept.clear()
            self._kept_bytes = 0
        self._kept_bytes += size_bytes
        return fitting

    def _fetch(self, digests: list[str]) -> None:
        if digests:
            self._kept.update({blob.digest: blob.text for blob in Blob.objects.filter(pk__in=digests)})
