"""Statements over many rows: the distinct values of a column."""

from __future__ import annotations

import pytest

from environments.database.json_rows import distinct_values
from environments.models import TaskTag
from episodes.models import Episode
from tests.stored import make_episode, make_task

pytestmark = pytest.mark.django_db


def test_it_lists_each_value_of_a_column_once_and_in_order() -> None:
    for names in (("easy", "hard"), ("hard",), ("arith", "easy")):
        task = make_task({"names": names})
        TaskTag.objects.bulk_create(TaskTag(task=task, name=name) for name in names)
    assert distinct_values(TaskTag, "name", 10) == ["arith", "easy", "hard"]
    assert distinct_values(TaskTag, "name", 2) == ["arith", "easy"]


def test_it_leaves_out_the_empty_value() -> None:
    for model in ("qwen", "", "claude", "qwen"):
        make_episode(model=model)
    assert distinct_values(Episode, "model", 10) == ["claude", "qwen"]


def test_it_lists_nothing_of_an_empty_table() -> None:
    assert distinct_values(TaskTag, "name", 10) == []
