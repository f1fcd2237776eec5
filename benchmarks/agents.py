"""Scripts of agents, which send the same bytes as the client of `ors-sdk` 0.1.0 (recorded from it).

Every input is different, as in reality, so a server that stores equal contents only once has no
advantage.
"""

from __future__ import annotations

import itertools
import json
import random
from array import array
from collections.abc import Callable, Generator, Iterator

from benchmarks.client import Answer, Script, Tally

REQUESTS_PER_EPISODE = 11
CALLS_PER_EPISODE = 5
TASKS = 100


def task_at(index: int) -> dict[str, object]:
    """Return a task of `echo`."""
    return {"id": index, "question": f"Say something {index} times."}


Bodies = Callable[[bytes], bytes]
"""Returns the body of a call. Its argument is `true` for the last call of an episode, else `false`,
as JSON."""

_HEAD = (
    b" HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: ors-sdk/0.1.0\r\nAccept-Encoding: gzip, "
    b"deflate\r\n"
)
SSE = b"Accept: text/event-stream\r\n"
_PLAIN = b"Accept: */*\r\n"
_JSON = b"Content-Type: application/json\r\nContent-Length: %d\r\n"
_NO_BODY = b"Content-Type: application/octet-stream\r\nContent-Length: 0\r\n"
_CREATE_SESSION = b"POST /create_session" + _HEAD + SSE + _JSON % 2 + b"\r\n{}"

_WORDS = b"the agent looks at a red door and then opens it with great care before anything else happens again".split()


def echoes(text_bytes: int) -> Bodies:
    """Return the bodies of calls of `echo` with texts of `text_bytes`, all different."""
    words = b" ".join(random.Random(7).choices(_WORDS, k=text_bytes))[: text_bytes - 13]
    numbers = itertools.count()
    return lambda last: (
        b'{"name": "echo", "input": {"text": "%012d %s", "last": %s}}'
        % (next(numbers), words, last)
    )


def naps(tool: str, seconds: float) -> Bodies:
    """Return the bodies of calls of `nap` or `spin`, which takes `seconds`."""
    return lambda last: (
        b'{"name": "%s", "input": {"seconds": %f, "last": %s}}' % (tool.encode(), seconds, last)
    )


def play(
    bodies: Bodies,
    durations: array[float],
    tally: Tally,
    indexes: Iterator[int],
    *,
    by_content: bool = False,
) -> Script:
    """Play episodes of five calls, one after another, while the load lasts. Times of calls are
    added to `durations`."""
    while tally.is_playing:
        sid = yield from open_session(tally, next(indexes), by_content=by_content)
        for number in range(1, CALLS_PER_EPISODE + 1):
            last = b"true" if number == CALLS_PER_EPISODE else b"false"
            body = bodies(last)
            answer, seconds = yield post(b"/echo/call", SSE, sid, body)
            tally.add(durations, seconds)
            _check(answer, body, last, tally)
        yield post_nothing(b"/delete", sid)
        yield post_nothing(b"/delete_session", sid)


def settle(count: int, sids: list[bytes], tally: Tally) -> Script:
    """Open `count` sessions, read their prompts and leave them idle. Their ids are added to
    `sids`."""
    for index in range(count):
        sids.append((yield from open_session(tally, index % TASKS)))


def ping(sids: Iterator[bytes], tally: Tally) -> Script:
    """Ping one session after another, at the interval of the connection."""
    for sid in sids:
        _, seconds = yield post_nothing(b"/ping", sid)
        tally.add(tally.pings, seconds)


def visit(sids: Iterator[bytes], bodies: Bodies, tally: Tally) -> Script:
    """Make a call in one session after another, at the interval of the connection."""
    for sid in sids:
        body = bodies(b"false")
        answer, seconds = yield post(b"/echo/call", SSE, sid, body)
        tally.add(tally.pings, seconds)
        _check(answer, body, b"false", tally)


def session_id(answer: bytes) -> bytes:
    """Return the data of the `task_id` event; empty if there is none."""
    _, _, rest = answer.partition(b"event: task_id")
    _, _, rest = rest.partition(b"data: ")
    return rest.partition(b"\n")[0].strip()


def open_session(
    tally: Tally, index: int, environment: bytes = b"echo", *, by_content: bool = False
) -> Generator[bytes, Answer, bytes]:
    """Create a session of the task at `index`, ping it and read its prompt; return its id.

    With `by_content`, the task is named by what it contains, as the SDKs do with tasks that they
    have listed.
    """
    answer, _ = yield _CREATE_SESSION
    sid = session_id(answer)
    if not sid or b"event: end" not in answer:
        tally.fail(f"no session: {answer[:500]!r}")
    task = b'"split": "train", "index": %d' % index
    if by_content:
        task = b'"task_spec": %s' % json.dumps(task_at(index)).encode()
    body = b'{%s, "env_name": "%s"}' % (task, environment)
    yield post(b"/create", _PLAIN, sid, body)
    yield post_nothing(b"/ping", sid)
    yield prompt(environment, sid)
    return sid


def prompt(environment: bytes, sid: bytes) -> bytes:
    path = b"GET /%s/prompt" % environment
    return b"".join((path, _HEAD, _PLAIN, b"X-Session-ID: ", sid, b"\r\n\r\n"))


def post(path: bytes, accept: bytes, sid: bytes, body: bytes) -> bytes:
    head = (b"POST ", path, _HEAD, accept, b"X-Session-ID: ", sid, b"\r\n")
    return b"".join((*head, _JSON % len(body), b"\r\n", body))


def post_nothing(path: bytes, sid: bytes) -> bytes:
    return b"".join(
        (b"POST ", path, _HEAD, _PLAIN, b"X-Session-ID: ", sid, b"\r\n", _NO_BODY, b"\r\n")
    )


def _check(answer: bytes, body: bytes, last: bytes, tally: Tally) -> None:
    """Check that an answer is the echo of the call's body: with its headers it is longer than the
    body.

    The texts are not compared, because that would require joining chunks.
    """
    is_whole = b"event: end" in answer and len(answer) > len(body)
    if not (is_whole and b'{"ok":true' in answer and b'"finished":' + last in answer):
        tally.fail(f"not the result of the call: {answer[:500]!r}")
