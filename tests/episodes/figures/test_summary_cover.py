"""Ranges of blocks hold every block of the lowest level once, in few pieces."""

from __future__ import annotations

from episodes.figures.summary_cover import block_ranges
from tests.rows import each


@each("first", [0, 1, 63, 4000])
@each("size", [1, 5, 124, 125, 500, 7813])
def test_stretches_hold_each_block_once(first: int, size: int) -> None:
    found = block_ranges(first, first + size)
    held = [n for level, low, beyond in found for n in range(low * 4**level, beyond * 4**level)]
    assert held == list(range(first, first + size))
    assert sum(beyond - low for _, low, beyond in found) <= 530
