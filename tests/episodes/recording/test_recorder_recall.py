from __future__ import annotations

import pytest

from environments.runtime.records import RecalledCall
from episodes.recording.recorder import Recorder
from tests.episodes.recorded import record, run
from tests.factories import episode_started, step_taken

pytestmark = pytest.mark.django_db(transaction=True)


def recall(session_id: str, task_id: str, owner: str = "") -> RecalledCall | None:
    async def play(recorder: Recorder) -> RecalledCall | None:
        return await recorder.recall(session_id, owner, task_id)

    return run(play)


def test_it_returns_a_call_after_a_restart() -> None:
    record((episode_started(key_label="lab"), step_taken(output_json='{"blocks": []}')))
    assert recall("session-1", "call-0", "lab") == RecalledCall("ok", '{"blocks": []}', "", "")


def test_it_returns_a_refusal() -> None:
    record(
        (
            episode_started(),
            step_taken(
                status="refused", output_json=None, error="no such tool", reason="not_found"
            ),
        )
    )
    assert recall("session-1", "call-0") == RecalledCall(
        "refused", None, "no such tool", "not_found"
    )


def test_it_returns_a_large_output() -> None:
    large = '"' + "x" * 20_000 + '"'
    record((episode_started(), step_taken(output_json=large)))
    recalled = recall("session-1", "call-0")
    assert recalled is not None and recalled.output_json == large


def test_it_answers_from_the_newest_episode_of_a_session() -> None:
    for episode in (1, 2):
        start = episode_started(episode, session_id="same")
        record((start, step_taken(episode, output_json=f'{{"episode": {episode}}}')))
    recalled = recall("same", "call-0")
    assert recalled is not None and recalled.output_json == '{"episode": 2}'


def test_each_key_gets_its_own_call_though_both_used_one_id() -> None:
    for episode, label in ((1, "alice"), (2, "bob")):
        start = episode_started(episode, session_id="same", key_label=label)
        record((start, step_taken(episode, output_json=f'{{"of": "{label}"}}')))
    found = [recall("same", "call-0", label) for label in ("alice", "bob", "carol")]
    assert [one and one.output_json for one in found] == ['{"of": "alice"}', '{"of": "bob"}', None]


@pytest.mark.parametrize(
    ("session_id", "task_id"), [("session-1", "other"), ("other", "call-0"), ("\0", "\ud800")]
)
def test_it_knows_nothing_of_other_calls(session_id: str, task_id: str) -> None:
    record((episode_started(), step_taken()))
    assert recall(session_id, task_id) is None


@pytest.mark.parametrize("odd", ["x" * 3000, "é" * 600, "a\0b", "\ud800"])
def test_it_finds_calls_by_odd_ids(odd: str) -> None:
    record((episode_started(session_id=odd), step_taken(task_id=odd)))
    assert recall(odd, odd) is not None
