"""A line is imported whole or refused with its number and a reason; its neighbours are imported all
the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from environments.files.rows import Unreadable
from episodes.models import Episode, Step
from tests.episodes.transfer.record import forget_everything, import_text, lines_of
from tests.stored import make_episode, make_step

pytestmark = pytest.mark.django_db


@pytest.fixture
def line() -> dict[str, Any]:
    """A good one, of an episode that is not there any more."""
    make_step(make_episode(id=3, steps_count=1), reward=1.0)
    [found] = lines_of()
    forget_everything()
    return found


def refusal(tmp_path: Path, text: str, good: dict[str, Any]) -> str:
    """Return the reason of the one line that is refused, between two good ones."""
    others = [{**good, "id": number, "session_id": f"other-{number}"} for number in (100, 200)]
    report = import_text(tmp_path, f"{json.dumps(others[0])}\n{text}\n{json.dumps(others[1])}\n")
    [(file, found)] = report.refusals
    assert (file, found.number, report.imported) == ("0.jsonl", 2, 2)
    assert list(Episode.objects.order_by("pk").values_list("pk", flat=True)) == [100, 200]
    assert Step.objects.count() == 2
    return found.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"orsweb": "episode/2"},
            "has the format 'episode/2'; this version of orsweb reads 'episode/1'",
        ),
        ({"status": "running"}, "still running; export it again after its end"),
        ({"cause": "bored"}, "cause is 'bored': input should be '', 'finished'"),
        ({"return_sum": "high"}, "return_sum is 'high': input should be a valid number"),
        ({"return_sum": None}, "return_sum is None: input should be a valid number"),
        ({"id": 0}, "id is 0: input should be greater than or equal to 1"),
        ({"id": 2**53}, "id is 9007199254740992: input should be less than"),
        ({"run_step": 2**63}, "run_step is 9223372036854775808: input should be less than"),
        ({"created": "yesterday"}, "created is 'yesterday': input should be a valid datetime"),
        (
            {"created": "2026-01-01T00:00:00"},
            "created is '2026-01-01T00:00:00': input should have timezone info",
        ),
        ({"session_id": "a\0b"}, "session_id: the character NUL cannot be stored"),
        ({"session_id": "x" * 513}, "session_id is 'xxx"),
        ({"colour": "red"}, "colour is 'red': extra inputs are not permitted"),
        ({"environment": None}, "environment is None: input should be a valid dictionary"),
        ({"task": {"spec": {"other": 1}, "hash": "00"}}, "task: the hash of this spec is"),
        ({"task": {}}, "task: there is no spec"),
        ({"steps": [{"index": 0}]}, "steps.0.tool: field required"),
        ({"steps": {}}, "steps: input should be a valid list"),
    ],
)
def test_a_bad_value_is_named(
    tmp_path: Path, line: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    assert words in refusal(tmp_path, json.dumps({**line, **changes}), line)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("oops", "is not JSON: Expecting value"),
        ('{"orsweb": "episode/1", "id": 3', "is not JSON: Expecting ',' or '}' at character 32"),
        (
            '{"orsweb": "episode/1", "orsweb": 1}',
            "has the key 'orsweb' twice in one object; keep one of them",
        ),
        ('{"orsweb": "episode/1",}', "is not JSON: Expecting the name of a member at character 24"),
        ('{"orsweb": "episode/1"} 7', "is not JSON: Extra data at character 25"),
        ('{"orsweb": NaN}', "is not JSON: NaN is not JSON"),
        (
            '{"orsweb": "episode/1", "run": {"config": {"a": 1e400}}}',
            "is not JSON: 1e400 is beyond 1.8e308",
        ),
        (
            '{"orsweb": "episode/1", "id": ' + "9" * 5000 + "}",
            "is not JSON: a number in it has more than 4,300 digits",
        ),
        ('{"orsweb": ' + "[" * 100_000, "is not JSON"),
        ('{"question": "2 + 2?"}', "is not an episode: it has no key 'orsweb'"),
        ("[1, 2]", "is not an episode: it has no key 'orsweb'"),
        ("\udcff", "is not UTF-8: byte 0xff at 1"),
    ],
)
def test_what_is_no_episode_is_refused(
    tmp_path: Path, line: dict[str, Any], text: str, words: str
) -> None:
    assert words in refusal(tmp_path, text, line)


@pytest.mark.parametrize("key", ["index", "task_id"])
def test_two_steps_that_are_the_same_are_refused(
    tmp_path: Path, line: dict[str, Any], key: str
) -> None:
    step = line["steps"][0]
    other = {**step, "index": 1, "task_id": "other", key: step[key]}
    assert f"two of its steps have the same {key}" in refusal(
        tmp_path, json.dumps({**line, "steps": [step, other]}), line
    )


@pytest.mark.parametrize("start", ["PAR1", "[{", "episode,environment"])
def test_another_kind_of_file_is_refused_as_a_whole(tmp_path: Path, start: str) -> None:
    with pytest.raises(Unreadable, match=r"0\.jsonl does not start with a line of JSON"):
        import_text(tmp_path, start)


def test_an_empty_file_is_no_episode(tmp_path: Path) -> None:
    assert import_text(tmp_path, "", "\n \n").imported == 0
