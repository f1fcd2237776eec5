"""Exports in a browser: what was selected, and what a filter finds, arrive as files with just these
episodes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from playwright.sync_api import Download, Page, expect

from tests.browser.rounds import play_rounds
from tests.server import LiveServer

RUN = "to-be-exported"


@pytest.fixture(scope="module")
def numbers(live: LiveServer) -> list[int]:
    play_rounds(live, "left-behind")
    return play_rounds(live, RUN, 3)


def lines_of(download: Download) -> list[str]:
    return Path(download.path()).read_text(encoding="utf-8").splitlines()


def test_a_filter_and_a_selection_are_exported(page: Page, numbers: list[int]) -> None:
    page.goto(f"/episodes/?run={RUN}")
    page.get_by_text("Export", exact=True).first.click()
    with page.expect_download() as waited:
        page.locator("[data-export-format=csv]").click()
    rows = list(csv.DictReader(lines_of(waited.value)))
    assert sorted(int(row["episode"]) for row in rows) == numbers
    assert {row["run"] for row in rows} == {RUN}
    for number in numbers[1:]:
        page.get_by_label(f"Select episode {number}").check()
    expect(page.locator("[data-selected-count]")).to_have_text("2 selected")
    with page.expect_download() as waited:
        page.locator("[data-selected-format=jsonl]").click()
    assert sorted(json.loads(line)["id"] for line in lines_of(waited.value)) == numbers[1:]


def test_a_leaderboard_is_exported(page: Page, numbers: list[int]) -> None:
    page.goto("/environments/guess/leaderboard/?by=run")
    expect(page.get_by_role("link", name=RUN)).to_be_visible()
    with page.expect_download() as waited:
        page.get_by_role("link", name="CSV").click()
    assert any(RUN in line and str(len(numbers)) in line for line in lines_of(waited.value))
