from __future__ import annotations

import pytest

from environments.runtime.crash_notes import NotedCall
from environments.runtime.incident_reports import IncidentReport, LeftBehind
from environments.runtime.records import GOES_ON, RunInfo
from episodes.models import Episode
from episodes.recording.interrupted_episodes import close_interrupted
from episodes.recording.returning_episodes import open_episodes, recorded_past
from tests.episodes.recorded import record
from tests.factories import NOON, episode_ended, episode_noted, episode_started, step_taken

pytestmark = pytest.mark.django_db(transaction=True)

NOTHING = LeftBehind()
LATER = NOON + 3600


def started(number: int, survival: str | None = "replay", **values: object) -> object:
    return episode_started(number, session_id=f"s{number}", survival=survival, **values)


def test_it_finds_the_running_episodes_whose_sessions_go_on() -> None:
    ways = ["replay", "key", "sealed", "secrets", "toolset", None]
    record(tuple(started(number, survival) for number, survival in enumerate(ways, 1)))
    record((started(7), episode_ended(7), started(8, environment="other")))
    found = open_episodes(NOTHING, ["echo"])
    assert [(one.number, one.session_id, one.survival) for one in found] == [
        (1, "s1", "replay"),
        (2, "s2", "key"),
        (3, "s3", "sealed"),
    ]
    assert {one.survival for one in found} == GOES_ON
    assert open_episodes(NOTHING, []) == []


def test_it_says_what_is_known_of_them() -> None:
    record(
        (
            started(1, key_label="alice", run=RunInfo("grpo-3")),
            episode_noted(1, ready=NOON + 1, prompt_json="[]"),
        )
    )
    [found] = open_episodes(
        LeftBehind(unsent={1: {4: NotedCall("echo", 1, "say", NOON, "ab", 0, 0)}}), ["echo"]
    )
    assert (found.environment, found.key_label, found.run, found.is_named) == (
        "echo",
        "alice",
        "grpo-3",
        True,
    )
    assert (found.has_prompt, found.created, found.ready, found.unsent) == (
        True,
        NOON,
        NOON + 1,
        {4},
    )
    assert [call.what for call in found.running] == ["say"]  # it is not recorded


def test_of_two_with_one_id_the_newer_goes_on() -> None:
    record((started(1), episode_started(2, session_id="s1", survival="replay")))
    assert [one.number for one in open_episodes(NOTHING, ["echo"])] == [2]


def test_it_leaves_out_the_call_that_has_ended_the_server() -> None:
    record((started(1), started(2)))
    call = NotedCall("echo", 1, "crash", NOON, "", 0, 0)
    died = IncidentReport("died", NOON, "by signal 11 (SIGSEGV)", suspects=(call,), is_certain=True)
    assert [one.number for one in open_episodes(LeftBehind(reports=(died,)), ["echo"])] == [2]


def test_the_others_end_and_say_why() -> None:
    record((started(1), started(2, "secrets"), started(3, None)))
    assert close_interrupted(LATER, detail="It died.", but=[1]) == 2
    assert list(Episode.objects.order_by("pk").values_list("status", "detail")) == [
        ("running", ""),
        (
            "ended",
            "It died. The session could not go on, because it had secrets, which are not stored.",
        ),
        ("ended", "It died."),
    ]


def test_it_reads_what_is_recorded() -> None:
    large = f'{{"blocks":[{{"text":"{"x" * 10_000}","type":"text"}}]}}'
    steps = (
        step_taken(index=0, output_json=large),
        step_taken(index=1, status="failed", output_json=None, error="no"),
    )
    record((started(1, spec_json='{"id": 7}'), episode_noted(1, prompt_json='["p"]'), *steps))
    past = recorded_past(1)
    assert (past.spec_json, past.prompt_json) == ('{"id": 7}', '["p"]')
    assert list(past.steps) == list(steps)
