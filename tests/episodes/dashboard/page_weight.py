"""Size of the first load of pages: the bytes on the wire of a page and of all files that it loads.

The size is that of the response bodies for a browser that accepts gzip. Imports of scripts and
style sheets are followed. A reference to another host is an error.
"""

from __future__ import annotations

import gzip
import posixpath
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, NamedTuple

MAX_KB = 300.0

_IMPORTS = re.compile(
    r"""(?:^|[;\s])(?:import|export)\b[^"';]*["']([^"']+)["']|import\(\s*["']([^"']+)["']\)|url\(\s*["']?([^"')]+)"""
)


class Weight(NamedTuple):
    sent_kb: float
    plain_kb: float
    """Size after decompression."""
    files: int


class _Body(NamedTuple):
    sent_bytes: int
    plain: bytes


class _LinkParser(HTMLParser):
    """Collects the addresses that a browser fetches by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        address = attributes.get("src") if tag in ("script", "img", "source") else None
        if tag == "link" and attributes.get("rel") in (
            "stylesheet",
            "icon",
            "modulepreload",
            "preload",
        ):
            address = attributes.get("href")
        if address:
            self.addresses.append(address)


def weight(client: Any, url: str) -> Weight:
    """Return the size of a page with all its files. Raises: RuntimeError for another host or a
    missing file."""
    bodies = list(_load(client, url))
    sent_bytes, plain_bytes = (
        sum(sizes) for sizes in zip(*((b.sent_bytes, len(b.plain)) for b in bodies), strict=True)
    )
    return Weight(sent_bytes / 1024, plain_bytes / 1024, len(bodies))


def _load(client: Any, url: str) -> Iterator[_Body]:
    """Yield the bodies of a page and of the files that it loads, each once."""
    page = _fetch(client, url)
    yield page
    links = _LinkParser()
    links.feed(page.plain.decode())
    waiting, fetched = [posixpath.join(url, address) for address in links.addresses], {url}
    while waiting:
        address = waiting.pop()
        if address in fetched or address.startswith("data:"):
            continue
        fetched.add(address)
        body = _fetch(client, address)
        yield body
        if address.endswith((".js", ".css")):
            inner = (next(filter(None, match)) for match in _IMPORTS.findall(body.plain.decode()))
            waiting += [
                posixpath.normpath(posixpath.join(posixpath.dirname(address), name))
                for name in inner
                if name.startswith((".", "/")) or address.endswith(".css")
            ]


def _fetch(client: Any, address: str) -> _Body:
    if address.startswith(("http:", "https:", "//")):
        raise RuntimeError(
            f"{address} is on another host; pages must load everything from their own server."
        )
    answer = client.get(address, headers={"accept-encoding": "gzip, deflate, br, zstd"})
    if answer.status_code != 200:
        raise RuntimeError(f"{address} returned status {answer.status_code}.")
    sent = bytes(answer.getvalue())
    return _Body(
        len(sent),
        gzip.decompress(sent) if answer.headers.get("Content-Encoding") == "gzip" else sent,
    )
