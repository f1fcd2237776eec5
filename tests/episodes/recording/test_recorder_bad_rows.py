from __future__ import annotations

import math
import sys

import pytest

from environments.runtime.records import RunInfo
from episodes.models import Episode, Step
from tests.episodes.recorded import record
from tests.factories import episode_ended, episode_started, step_taken

pytestmark = pytest.mark.django_db(transaction=True)

ORPHAN = step_taken(episode=999)
"""A step of an episode that does not exist: the database refuses it at the commit."""


@pytest.mark.parametrize(
    "text",
    ['"', "\\", '{a,b}"\\"', "NULL", "", " ", "é\u2028😀", "line\nline\r\ttab", "\\x41", "%s", "?"],
)
def test_it_keeps_a_text_as_it_is(text: str) -> None:
    record((episode_started(), step_taken(tool=text, error=text, input_json=text)))
    assert Step.objects.values_list("tool", "error", "input").get() == (text, text, text)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a\0b", "a\ufffdb"),
        ("\ud800", "\ufffd"),
        ("\udfff é", "\ufffd é"),
        ("é\0", "é\ufffd"),
        ("x" * 900, "x" * 200),
    ],
)
def test_it_makes_a_text_storable(text: str, stored: str) -> None:
    run = RunInfo(name=text, model=text)
    start = episode_started(session_id=text[:9], user_agent=text, key_label=text, run=run)
    assert record((start, step_taken(tool=text, error=text, reason=text, task_id=text[:9]))) == 0
    assert Step.objects.get().tool == stored
    episode = Episode.objects.select_related("run").get()
    assert (episode.key_label, episode.model, episode.run and episode.run.name) == (
        stored,
        stored,
        stored,
    )


def test_it_distinguishes_long_ids() -> None:
    ids = ["x" * 400 + "a", "x" * 400 + "b"]
    record(
        (
            episode_started(),
            *(step_taken(index=n, task_id=task_id) for n, task_id in enumerate(ids)),
        )
    )
    assert Step.objects.count() == 2


@pytest.mark.parametrize("number", [2**63, -(2**80)])
def test_it_leaves_out_a_number_beyond_64_bits(number: int) -> None:
    assert record((episode_started(index=number, run=RunInfo("r", number)),)) == 0
    assert Episode.objects.values_list("task_index", "run_step").get() == (None, None)


@pytest.mark.parametrize(
    ("total", "stored"),
    [(math.inf, sys.float_info.max), (-math.inf, -sys.float_info.max), (math.nan, 0.0)],
)
def test_it_keeps_returns_finite(total: float, stored: float) -> None:
    assert record((episode_started(), episode_ended(return_sum=total))) == 0
    assert Episode.objects.get().return_sum == stored


@pytest.mark.parametrize(
    "spec",
    [
        "[" * 100_000,
        "{",
        "",
        '{"a": NaN}',
        '{"a": "\\ud800\\u0000"}',
        "1" * 5000,
        '"' + "x" * 10**6 + '"',
    ],
)
def test_it_records_an_episode_of_an_odd_spec(spec: str) -> None:
    assert record((episode_started(spec_json=spec),)) == 0
    assert Episode.objects.select_related("task").get().task.spec == spec


@pytest.mark.parametrize("position", [0, 1, 17, 39])
def test_it_keeps_the_neighbours_of_a_bad_row(position: int) -> None:
    calls = [(step_taken(index=index),) for index in range(40)]
    calls.insert(position, (ORPHAN,))
    assert record((episode_started(),), *calls) == 1
    assert list(Step.objects.order_by("index").values_list("index", flat=True)) == list(range(40))


def test_it_keeps_the_neighbours_of_an_impossible_time() -> None:
    assert record((episode_started(1, created=1e20),), (episode_started(2),)) == 1
    assert Episode.objects.get().pk == 2


def test_it_says_committed_also_for_a_bad_row() -> None:
    assert record((ORPHAN,)) == 1


def test_it_rejects_the_rows_of_one_call_together() -> None:
    assert record((episode_started(), step_taken(), ORPHAN), (episode_started(2),)) == 3
    assert Episode.objects.get().pk == 2


def test_it_logs_a_bad_row_without_its_content(caplog: pytest.LogCaptureFixture) -> None:
    record((episode_started(created=1e20, spec_json='{"secret": 12345}', session_id="hidden"),))
    assert "record_rejected" in caplog.text and "EpisodeStarted" in caplog.text
    assert "12345" not in caplog.text and "hidden" not in caplog.text
