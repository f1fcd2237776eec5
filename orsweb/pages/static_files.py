"""Middleware that serves static files from their packages, gzipped if the client accepts it. In
settings.MIDDLEWARE.

ServeStatic serves files compressed only if `collectstatic` has compressed them. This server doesn't
collect files, so that it starts with one command: a file is added and compressed at the first
request for it and kept in memory. All files take 1.7 MB and 0.7 s of CPU time; those of one page
take 0.03 s of that, once, and the start of a server none.

`middleware.py` compresses pages, each time they are sent.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from wsgiref.headers import Headers

from django.contrib.staticfiles.finders import get_finders
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from servestatic.compress import Compressor  # type: ignore[import-untyped]
from servestatic.middleware import ServeStaticMiddleware  # type: ignore[import-untyped]
from servestatic.responders import Redirect, StaticFile  # type: ignore[import-untyped]
from servestatic.utils import parse_accept_encoding  # type: ignore[import-untyped]

_compressor = Compressor(quiet=True)


class _Zipped(NamedTuple):
    body: bytes
    headers: dict[str, str]
    not_modified: dict[str, str]


class Assets(ServeStaticMiddleware):  # type: ignore[misc]  # has no types
    """Serves static files and caches a gzipped copy of each file that was requested."""

    def __init__(self, *args: object, **options: object) -> None:
        self._zipped: dict[StaticFile, _Zipped | None] = {}
        super().__init__(*args, **options)

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info.startswith(self.static_prefix) and request.path_info not in self.files:
            await asyncio.to_thread(self._add_file, request.path_info)
        response: HttpResponseBase = await super().__call__(request)
        return response

    def add_files_from_finders(self) -> None:
        """Leave that to `_add_file`, unless files may change while the server runs."""
        if self.autorefresh:
            super().add_files_from_finders()

    def _add_file(self, url: str) -> None:
        """Add the file of this URL, if there is one."""
        if not self.autorefresh and url in self._paths:
            path, root = self._paths[url]
            self.add_file_to_dictionary(url, path, root=root)

    @cached_property
    def _paths(self) -> dict[str, tuple[str, str]]:
        """The path and the package's directory of each file, by URL; of several with one URL the
        first is served."""
        files = dict[str, tuple[str, str]]()
        for finder in get_finders():
            for path, storage in finder.list(None):
                files.setdefault(self.static_prefix + path, (storage.path(path), storage.location))
        return files

    def add_cache_headers(self, headers: Headers, path: str, url: str) -> None:
        super().add_cache_headers(headers, path, url)
        if _compressor.should_compress(path):
            headers["Vary"] = "Accept-Encoding"  # also on plain responses, because of shared caches

    async def aserve(
        self, static_file: StaticFile | Redirect, request: HttpRequest
    ) -> HttpResponseBase:
        # ranges count bytes of the plain file, and with DEBUG files may change
        gzip_file = None
        if (
            request.method in ("GET", "HEAD")
            and not self.autorefresh
            and "Range" not in request.headers
            and "gzip" in parse_accept_encoding(request.headers.get("Accept-Encoding", ""))
        ):
            gzip_file = await self._as_zipped(static_file)
        if gzip_file is None:
            plain: HttpResponseBase = await super().aserve(static_file, request)
            return plain
        if request.headers.get("If-None-Match") == gzip_file.headers["ETag"]:
            return HttpResponse(status=304, headers=gzip_file.not_modified)
        return HttpResponse(gzip_file.body, headers=gzip_file.headers)

    async def _as_zipped(self, file: StaticFile | Redirect) -> _Zipped | None:
        """Return the gzipped file, or None if compressing it is not worthwhile."""
        if isinstance(file, Redirect):
            return None
        if file not in self._zipped:
            # Two concurrent first requests both compress the file; one of the equal results is
            # kept.
            self._zipped[file] = await asyncio.to_thread(_compress, file)
        return self._zipped[file]


def _compress(file: StaticFile) -> _Zipped | None:
    path, plain_headers = file.get_path_and_headers({})
    if not _compressor.should_compress(path):
        return None
    plain = Path(path).read_bytes()
    body = _compressor.compress_gzip(plain)
    if not _compressor.is_compressed_effectively("gzip", path, len(plain), body):
        return None
    headers = {name: value for name, value in plain_headers if value is not None}
    # An ETag identifies one sequence of bytes (RFC 9110, 8.8.3), so it must differ from that of the
    # plain file.
    headers["ETag"] = headers["ETag"].removesuffix('"') + '-gzip"'
    headers |= {"Content-Encoding": "gzip", "Content-Length": str(len(body))}
    names = ("Cache-Control", "ETag", "Vary")
    return _Zipped(body, headers, {name: headers[name] for name in names if name in headers})
