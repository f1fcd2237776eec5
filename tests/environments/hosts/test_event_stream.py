"""Events of streams, however their bytes are cut."""

from __future__ import annotations

import pytest

from environments.hosts.event_stream import EventParser, StreamReader
from tests.rows import each

STREAM = (
    b": ping\r\n\r\nevent: chunk\r\ndata:  a\r\n\r\nid: 7\nevent: end\ndata: "
    b"b\xc3\xa9\ndata:c\n\nevent: late"
)


@each("size", [1, 2, 3, 7, 100])
def test_events_do_not_depend_on_the_cuts(size: int) -> None:
    parser = EventParser()
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    found = [event for piece in pieces for event in parser.feed(piece)]
    assert found == [("chunk", " a"), ("end", "b\u00e9\nc")]


def test_a_result_is_joined() -> None:
    reader = StreamReader(1000)
    assert reader.feed(b"event: task_id\ndata: t\n\nevent: chunk\ndata: {\n\n") is None
    end = reader.feed(b"event: new\ndata: x\n\nevent: end\ndata: }\n\n")
    assert end is not None
    assert (end.event, end.data, reader.task_id) == ("end", "{}", "t")


def test_a_stream_may_be_too_long() -> None:
    with pytest.raises(
        OverflowError, match="more than 10 bytes, which ORSWEB_MAX_RESULT_BYTES allows"
    ):
        StreamReader(10).feed(b"data: 123456\n")
