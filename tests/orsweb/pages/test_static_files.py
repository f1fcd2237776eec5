"""Static files are compressed for clients that accept it; nothing else is."""

from __future__ import annotations

import gzip
from pathlib import Path

import httpx
import pytest

from tests.rows import each
from tests.server import ROOT, LiveServer

FILE = "/static/orsweb/tokens.css"
PLAIN = (Path(ROOT) / "static/orsweb/tokens.css").read_bytes()


def get(server: LiveServer, path: str, **headers: str) -> tuple[httpx.Response, bytes]:
    """Return the response, and its body as it was sent."""
    own = {"Accept-Encoding": "identity"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    with httpx.stream("GET", f"{server.url}{path}", headers=own) as answer:
        return answer, b"".join(answer.iter_raw())


@pytest.mark.parametrize("accepted", ["gzip", "gzip, deflate, br, zstd", "br;q=1.0, gzip;q=0.5"])
def test_a_file_is_gzipped_for_clients_that_accept_it(server: LiveServer, accepted: str) -> None:
    answer, sent = get(server, FILE, Accept_Encoding=accepted)
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) == len(sent) < len(PLAIN) / 2
    assert gzip.decompress(sent) == PLAIN


@each("accepted", ["identity", "", "br", "gzip;q=0"])
def test_it_is_plain_for_clients_that_do_not(server: LiveServer, accepted: str) -> None:
    answer, sent = get(server, FILE, Accept_Encoding=accepted)
    assert "content-encoding" not in answer.headers
    assert sent == PLAIN


@pytest.mark.parametrize("accepted", ["identity", "gzip"])
def test_caches_are_reported_that_answers_differ_and_how_long_they_last(
    server: LiveServer, accepted: str
) -> None:
    answer, _ = get(server, FILE, Accept_Encoding=accepted)
    assert answer.headers["vary"] == "Accept-Encoding"
    assert (answer.headers["cache-control"], answer.headers["content-type"]) == (
        "max-age=60, public",
        'text/css; charset="utf-8"',
    )


@pytest.mark.parametrize("accepted", ["identity", "gzip"])
def test_no_other_site_may_read_one(server: LiveServer, accepted: str) -> None:
    answer, _ = get(server, FILE, Accept_Encoding=accepted, Origin="http://elsewhere.example")
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("accepted", ["identity", "gzip"])
def test_what_a_browser_has_is_not_sent_again(server: LiveServer, accepted: str) -> None:
    tag = get(server, FILE, Accept_Encoding=accepted)[0].headers["etag"]
    again, sent = get(server, FILE, Accept_Encoding=accepted, If_None_Match=tag)
    assert (again.status_code, again.headers["etag"], sent) == (304, tag, b"")
    assert again.headers["vary"] == "Accept-Encoding"


def test_the_two_have_tags_of_their_own(server: LiveServer) -> None:
    plain, zipped = (
        get(server, FILE, Accept_Encoding=one)[0].headers["etag"] for one in ("identity", "gzip")
    )
    assert plain != zipped


def test_head_tells_the_length_alone(server: LiveServer) -> None:
    answer = httpx.head(f"{server.url}{FILE}", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip" and int(
        answer.headers["content-length"]
    ) < len(PLAIN)


def test_a_range_is_of_the_plain_file(server: LiveServer) -> None:
    answer, sent = get(server, FILE, Accept_Encoding="gzip", Range="bytes=0-9")
    assert (answer.status_code, sent) == (206, PLAIN[:10])


def test_what_is_compressed_already_stays_as_it_is(server: LiveServer) -> None:
    answer, _ = get(
        server, "/static/unfold/fonts/inter/Inter-Regular.woff2", Accept_Encoding="gzip"
    )
    assert answer.status_code == 200
    assert "content-encoding" not in answer.headers and "vary" not in answer.headers


@each("path", ["/api/episodes", "/health", "/echo/tools"])
def test_answers_to_programs_are_never_compressed(server: LiveServer, path: str) -> None:
    assert "content-encoding" not in get(server, path, Accept_Encoding="gzip")[0].headers


def test_an_event_stream_is_never_compressed(server: LiveServer) -> None:
    with httpx.stream(
        "GET", f"{server.url}/events/?channel=episodes", headers={"Accept-Encoding": "gzip, br"}
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert "content-encoding" not in answer.headers
        assert (
            next(line for line in answer.iter_lines() if line.startswith("event:"))
            == "event: stream-open"
        )
