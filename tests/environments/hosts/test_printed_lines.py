"""What a process prints is put together into whole lines."""

from __future__ import annotations

from environments.hosts.printed_lines import MAX_LINE_BYTES, PrintedLines
from tests.rows import each

LONG = b"x" * MAX_LINE_BYTES
NOTE = b"(a line of more than 65536 bytes)"


@each(
    "pieces, lines",
    [
        ([b"a\nb\n", b"c\n"], [b"a\nb\n", b"c\n", b""]),
        ([b"a", b"b\nc", b"d"], [b"", b"ab\n", b"", b"cd"]),
        ([b"10 %\r20 %\r", b"30", b" %\n"], [b"10 %\r20 %\r", b"", b"30 %\n", b""]),
        ([b"a\r", b"\nb"], [b"a\r", b"\n", b"b"]),
        ([LONG, b"\n"], [b"", LONG + b"\n", b""]),
        ([LONG, b"x", b"x\r\nnext\nrest"], [b"", b"", NOTE + b"\r\nnext\n", b"rest"]),
        ([LONG, LONG, LONG], [b"", b"", b"", NOTE]),
    ],
    ids=lambda row: str(row)[:60],
)
def test_lines_wait_for_their_end(pieces: list[bytes], lines: list[bytes]) -> None:
    printed = PrintedLines()
    assert [*map(printed.add, pieces), printed.end()] == lines
