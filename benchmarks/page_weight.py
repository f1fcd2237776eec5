"""First load of pages: bytes on the wire of the page and of everything that it names of its own server.

That is the body of each answer as a browser gets it that takes gzip: files compressed, the page itself plain. Scripts
and style sheets are followed to what they import. Whatever leads to another host makes the answer wrong. Used by
`dashboard.py`.
"""

from __future__ import annotations

import gzip
import posixpath
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, NamedTuple

MAX_KB = 300.0
SHOWN = 5
"""Heaviest pages that are printed."""

_PAGES = {
    "overview": "/",
    "environments": "/environments/",
    "environment": "/environments/bench0/",
    "leaderboard": "/environments/bench0/leaderboard/?split=train",
    "episodes": "/episodes/",
    "replay": "/episodes/8/",
    "compare": "/compare/?episodes=1,2",
    "compare runs": "/compare/?runs=1,2",
    "task": "/tasks/1/",
    "group": "/tasks/1/group/?run=1&step=1",
    "runs": "/runs/",
    "run": "/runs/1/",
    "curves": "/runs/curves/?environment=bench0",
}
_IMPORTS = re.compile(
    r"""(?:^|[;\s])(?:import|export)\b[^"';]*["']([^"']+)["']|import\(\s*["']([^"']+)["']\)|url\(\s*["']?([^"')]+)"""
)


class Weight(NamedTuple):
    sent_kb: float
    plain_kb: float
    """The same, unpacked."""
    files: int


class _Body(NamedTuple):
    sent_bytes: int
    plain: bytes


class _Named(HTMLParser):
    """Addresses that a browser fetches by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get("src") if tag in ("script", "img", "source") else None
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "modulepreload", "preload"):
            address = given.get("href")
        if address:
            self.found.append(address)


def measure(only: str) -> tuple[bool, bool]:
    """Print the heaviest pages; whether all could be had from this server, and whether all are light enough."""
    from django.test import Client

    client = Client(SERVER_NAME="127.0.0.1")
    weights = sorted(
        ((weight(client, url), name) for name, url in _PAGES.items() if only in f"first load {name}"), reverse=True
    )
    if not weights:
        return True, True
    print(f"\nfirst load, on the wire (target {MAX_KB:g} KB)")
    for found, name in weights[:SHOWN]:
        verdict = "PASS" if found.sent_kb <= MAX_KB else "FAIL"
        print(f"{name:<36}{found.sent_kb:>8.0f} KB of {found.plain_kb:.0f} KB in {found.files} files  {verdict}")
    return True, weights[0][0].sent_kb <= MAX_KB


def weight(client: Any, url: str) -> Weight:
    """Of a page with all that it loads. Raises: RuntimeError for another host and for what is not there."""
    bodies = list(_loaded(client, url))
    sent_bytes, plain_bytes = (
        sum(sizes) for sizes in zip(*((b.sent_bytes, len(b.plain)) for b in bodies), strict=True)
    )
    return Weight(sent_bytes / 1024, plain_bytes / 1024, len(bodies))


def _loaded(client: Any, url: str) -> Iterator[_Body]:
    """Each once."""
    page = _fetched(client, url)
    yield page
    named = _Named()
    named.feed(page.plain.decode())
    waiting, known = [posixpath.join(url, address) for address in named.found], {url}
    while waiting:
        address = waiting.pop()
        if address in known or address.startswith("data:"):
            continue
        known.add(address)
        body = _fetched(client, address)
        yield body
        if address.endswith((".js", ".css")):
            inner = (next(filter(None, match)) for match in _IMPORTS.findall(body.plain.decode()))
            waiting += [
                posixpath.normpath(posixpath.join(posixpath.dirname(address), one))
                for one in inner
                if one.startswith((".", "/")) or address.endswith(".css")
            ]


def _fetched(client: Any, address: str) -> _Body:
    if address.startswith(("http:", "https:", "//")):
        raise RuntimeError(f"{address} is on another host; pages take everything from their own server.")
    answer = client.get(address, headers={"accept-encoding": "gzip, deflate, br, zstd"})
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answers {answer.status_code}.")
    sent = bytes(answer.getvalue())
    return _Body(len(sent), gzip.decompress(sent) if answer.headers.get("Content-Encoding") == "gzip" else sent)
