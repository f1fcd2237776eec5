"""Columns of episodes that the list, its JSON and CSV files have in common."""

from __future__ import annotations

import csv

import pytest
from django.db.models import F
from django.test import Client

from episodes.filtering import columns
from episodes.filtering.columns import EPISODE_COLUMNS, EpisodeColumn
from tests.episodes.transfer.record import exported
from tests.stored import make_episode

pytestmark = pytest.mark.django_db


def row_of_csv() -> dict[str, str]:
    content = b"".join(exported("csv")).decode()
    [row] = csv.DictReader(content.splitlines())
    return row


def test_every_column_is_in_json_and_in_csv_files(client: Client) -> None:
    make_episode()
    names = {column.name for column in EPISODE_COLUMNS}
    [listed] = client.get("/api/episodes").json()["results"]
    assert names <= listed.keys() and names <= row_of_csv().keys()


def test_a_column_that_is_computed_is_a_cell_and_a_value_of_a_csv_file(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = F("failed_count") + F("refused_count")
    column = EpisodeColumn("problems", source, heading="Problems")
    monkeypatch.setattr(columns, "EPISODE_COLUMNS", (*EPISODE_COLUMNS, column))
    make_episode(failed_count=2, refused_count=3)
    text = client.get("/episodes/").content.decode()
    assert 'data-label="Problems" class="right">Problems</th>' in text
    assert '<td data-column="problems" class="right number">5</td>' in text
    assert row_of_csv()["problems"] == "5"
