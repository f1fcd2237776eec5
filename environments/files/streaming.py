"""Streams a file that is made in pieces as the body of a response. The export pages and the API use
it.

A download is one of the open streams of its client. It ends when the client loses a right.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field

from django.db import Error, connections
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header

from environments import security_log
from environments.access.current_login import rights_of
from environments.database.worker_threads import started_thread
from environments.errors import BrokenOff
from environments.keys.open_streams import STREAMS_PER_DOWNLOAD, OpenStream, open_streams

CHECK_SECONDS = 3.0
"""Time after which a download checks again whether its client may have it."""
MAX_SENT_BYTES = 64 * 1024
"""Bytes that are sent without a check, however slowly the client reads."""
MIN_PIECE_BYTES = 128 * 1024
"""Minimum size of a piece, except for the last one."""

Pieces = Generator[bytes, None, None]


def in_large_pieces(texts: Iterator[str | bytes]) -> Pieces:
    """Yield what `texts` yields in pieces of at least MIN_PIECE_BYTES."""
    buffer = bytearray()
    for text in texts:
        buffer += text.encode() if isinstance(text, str) else text
        if len(buffer) >= MIN_PIECE_BYTES:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)


@dataclass(frozen=True, slots=True)
class Download:
    """A file that a client downloads."""

    what: str
    """What it is, for the security log."""
    who: str
    """Name of the person or the key."""
    place: OpenStream
    has_rights: Callable[[], bool]
    """Whether the client may still do all that it could at first; called on the thread of the
    download."""


def download_of(request: HttpRequest, what: str) -> Download:
    """Return the download of the person who has sent the request. Raises: OverQuota."""
    name = request.user.get_username()
    place = open_streams.enter(
        f"@{name}", request.META.get("REMOTE_ADDR", ""), STREAMS_PER_DOWNLOAD
    )
    return Download(what, name, place, rights_of(request))


@dataclass(frozen=True, slots=True)
class StreamedFile:
    """A file whose first piece is made, so that an error or an empty file was noticed before."""

    name: str
    media_type: str
    first: bytes
    """The first piece."""
    pieces: Pieces
    """The pieces after the first one."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of the response."""

    def response(self, download: Download) -> StreamingHttpResponse:
        """Return the response that sends the file, and note the export in the security log."""
        security_log.note("exported", download.what, who=download.who)
        disposition = content_disposition_header(as_attachment=True, filename=self.name)
        return StreamingHttpResponse(
            self._content(download),
            content_type=self.media_type,
            headers={**self.headers, "Content-Disposition": disposition or "attachment"},
        )

    async def _content(self, download: Download) -> AsyncIterator[bytes]:
        """Yield the pieces, each made after the previous one is sent. Django would collect an ordinary
        iterator in memory.

        Everything runs on one thread, and therefore on one database connection, which is closed at the
        end even if the client has disconnected. Raises: BrokenOff.
        """
        with download.place:
            loop, thread = asyncio.get_running_loop(), await started_thread("export")
            checked_at = time.monotonic()
            piece: bytes | None = self.first
            try:
                while piece is not None:
                    for start in range(0, len(piece), MAX_SENT_BYTES):
                        if time.monotonic() - checked_at >= CHECK_SECONDS:
                            await loop.run_in_executor(thread, _check, download)
                            checked_at = time.monotonic()
                        yield piece[start : start + MAX_SENT_BYTES]
                    piece = await loop.run_in_executor(thread, next, self.pieces, None)
            finally:
                thread.submit(_end, self.pieces)
                thread.shutdown(wait=False)


def _check(download: Download) -> None:
    """Raises: BrokenOff."""
    with contextlib.suppress(Error):  # the database is away: check again later
        if not download.has_rights():
            security_log.note(
                "cut_off", download.what, who=download.who, detail="Rights were lost meanwhile."
            )
            raise BrokenOff


def _end(pieces: Pieces) -> None:
    try:
        pieces.close()
    finally:
        connections.close_all()
