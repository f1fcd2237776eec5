"""Tests of what a sync reports about a split, and which of it curators see."""

from __future__ import annotations

from environments.tasks.sync_report import SplitSync
from tests.rows import each


@each(("report", "has_news"), [
    ({"added": 5}, False), ({"unchanged": 5}, False), ({"added": 1, "unchanged": 5}, True), ({"edited": 1}, True),
    ({"kept": 1}, True), ({"withheld": 1}, True), ({"removed": 1}, True), ({"is_frozen": True}, True),
    ({"dropped": 1}, True), ({"is_undeclared": True}, True),
])  # fmt: skip
def test_what_is_news_to_those_who_curate(report: dict[str, int], has_news: bool) -> None:
    assert SplitSync("shop", "train", **report).has_news is has_news
