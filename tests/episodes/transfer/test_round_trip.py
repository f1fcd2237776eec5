"""Tests that an export is imported unchanged, on either database."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from environments.models import DEFAULT_CONVENTION, Environment, Split, Task, TaskStatistics
from environments.models.task_hash import hash_of_spec
from environments.scoring.convention import Convention
from episodes.models import EnvironmentRevision, Episode, Run, RunTag, Step
from episodes.rollups.follower import catch_up
from tests.episodes.counting import recounted, stored
from tests.episodes.ended import end_episode
from tests.episodes.transfer.record import (
    everything,
    forget_everything,
    import_text,
    make_rich_episodes,
    text_of,
)
from tests.filters import select
from tests.stored import (
    NOW,
    make_environment,
    make_episode,
    make_run,
    make_split,
    make_step,
    make_task,
)

pytestmark = pytest.mark.django_db

GOLDEN = Path(__file__).with_name("golden.jsonl")
"""A file that was exported from SQLite."""


def test_every_column_comes_back(tmp_path: Path) -> None:
    make_rich_episodes()
    before, text = everything(), text_of()
    forget_everything()
    report = import_text(tmp_path, text)
    assert (report.imported, report.refused, report.renumbered) == (2, 0, 0)
    assert everything() == before


def test_a_task_that_was_sent_by_its_content_comes_back(tmp_path: Path) -> None:
    task = make_task({"question": "?"})
    sent = hash_of_spec(task.spec, is_sent=True)
    Task.objects.update(content_hash=sent)
    make_episode(task=task)
    text = text_of()
    forget_everything()
    assert import_text(tmp_path, text).imported == 1
    assert Task.objects.get().content_hash == sent


@pytest.mark.parametrize("text", ["\u00e4pfel", "APFEL", "grosse", "\ufb01nde"])
def test_a_task_that_came_with_an_episode_is_found_whatever_its_case_and_accents(
    tmp_path: Path, text: str
) -> None:
    make_episode(task=make_task({"question": "Finde Gro\u00dfe \u00c4PFEL"}))
    line = text_of()
    forget_everything()
    assert import_text(tmp_path, line).imported == 1
    assert Task.objects.filter(select(search=text).condition()).exists()


def test_a_file_of_the_other_database_comes_back_byte_for_byte(tmp_path: Path) -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    assert import_text(tmp_path, text).imported == 2
    assert text_of() == text


def test_a_file_of_an_earlier_version_is_imported(tmp_path: Path) -> None:
    text = re.sub(
        r', "convention": {[^}]*}|, "success": \w+', "", GOLDEN.read_text(encoding="utf-8")
    )
    assert import_text(tmp_path, text).imported == 2
    assert Environment.objects.get().convention == DEFAULT_CONVENTION
    assert set(Episode.objects.values_list("revision", flat=True)) == {None}


def described_run() -> Run:
    """Create a run with a description, and episodes of it that two revisions of an environment
    played in turn."""
    description = {
        "step": 7,
        "state": "failed",
        "config": '{"lr": 0.1}',
        "git_commit": "abc",
        "notes": "slow",
    }
    run = Run.objects.create(name="grpo", created=NOW, updated=NOW, **description)
    RunTag.objects.bulk_create(RunTag(run=run, name=name) for name in ("b", "a"))
    environment = make_environment(convention=Convention(no_call="out", env_error="zero").code)
    task = make_task(environment=environment)
    for number, code in enumerate("aba"):
        episode = end_episode(1.0, task=task, run=run, run_step=number, cause="env_error")
        facts = {
            "code": code * 32,
            "digest": code,
            "source_hash": code,
            "versions": '{"ors": "1"}',
            "is_dirty": True,
        }
        times = {"first_episode": episode.pk, "created": NOW + timedelta(hours=number)}
        revision = EnvironmentRevision.objects.create(environment=environment, **facts, **times)
        Episode.objects.filter(pk=episode.pk).update(revision=revision)
    return run


def figures_of(client: Client) -> Any:
    return client.get("/api/curves?environment=math&x=step").json()


def test_an_import_shows_the_figures_revisions_and_runs_of_the_export(
    tmp_path: Path, client: Client
) -> None:
    described_run()
    text, run, figures = text_of(), client.get("/api/runs/by-name/grpo").json(), figures_of(client)
    assert [mark["code"][0] for mark in figures["revisions"]] == ["b", "a"] and text.count(
        '"lr"'
    ) == 1
    forget_everything()
    EnvironmentRevision.objects.all().delete()
    assert import_text(tmp_path, text).imported == 3
    addresses = ("id", "url", "html_url")
    imported = client.get("/api/runs/by-name/grpo").json()
    assert {**imported, **dict.fromkeys(addresses)} == {**run, **dict.fromkeys(addresses)}
    assert figures_of(client) == figures and text_of() == text
    import_text(tmp_path, text)
    assert EnvironmentRevision.objects.count() == 3


def test_a_run_that_is_described_here_keeps_its_description(tmp_path: Path) -> None:
    described_run()
    text = text_of()
    forget_everything()
    Run.objects.create(name="grpo", created=NOW, updated=NOW, notes="mine")
    import_text(tmp_path, text)
    assert Run.objects.values_list("notes", "step").get() == ("mine", None)


@pytest.mark.parametrize(
    "text",
    [
        '{"x": 1e20, "a":-0.0,  "b":[1.10]}',
        '{"a": 1, "a": 2}',
        "null",
        '"a text"',
        "123456789012345678901234567890",
        " [1]",
        '{"x":\n1}',
        "NaN",
        "no JSON at all",
        '{"x": "\\u0000\\ud800", "y": "é\u2028"}',
        "[" * 300 + "]" * 300,
        "[" * 100_000,
        "1" * 5000,
    ],
)
def test_a_json_text_stays_exactly_as_it_is(tmp_path: Path, text: str) -> None:
    make_step(make_episode(), input=text)
    line = text_of()
    forget_everything()
    import_text(tmp_path, line)
    assert Step.objects.select_related("input_blob").get().input_json == text


def test_json_is_in_the_line_as_json(tmp_path: Path) -> None:
    make_step(make_episode(), input='{"x": [1]}')
    make_step(make_episode(), input="NaN")
    inputs = [json.loads(line)["steps"][0] for line in text_of().splitlines()]
    assert inputs[0]["input"] == {"x": [1]} and "input_text" not in inputs[0]
    assert inputs[1]["input_text"] == "NaN" and "input" not in inputs[1]


def test_a_line_may_be_reformatted(tmp_path: Path) -> None:
    make_rich_episodes()
    line = json.loads(text_of().splitlines()[0])
    forget_everything()
    spaced = json.dumps(dict(reversed(line.items())), separators=(" , ", " : "), ensure_ascii=False)
    assert import_text(tmp_path, f"\ufeff  {spaced} \r\n\n").imported == 1
    assert Step.objects.count() == 3


def test_what_is_there_is_skipped(tmp_path: Path) -> None:
    make_rich_episodes()
    before = everything()
    report = import_text(tmp_path, text_of(), text_of())
    assert (report.imported, report.skipped) == (0, 4)
    assert everything() == before


def test_an_episode_whose_id_is_taken_gets_a_new_one_beyond_all_others(tmp_path: Path) -> None:
    first, last = make_episode(id=5), make_episode(id=8)
    text = text_of()
    forget_everything()
    make_episode(id=5)
    report = import_text(tmp_path, text)
    assert (report.imported, report.renumbered, report.new_ids) == (2, 1, {5: 9})
    sessions = dict(Episode.objects.values_list("pk", "session_id"))
    assert (sessions[9], sessions[8]) == (first.session_id, last.session_id)
    assert import_text(tmp_path, text).skipped == 2


def test_an_empty_database_gives_back_the_very_file(tmp_path: Path) -> None:
    make_rich_episodes()
    make_episode(id=3, end_number=40, return_last=-0.0, cause="expired")
    make_episode(
        id=12, end_number=11, split=Split.objects.get(), run=make_run(), labels='{"seed":  1e3}'
    )
    text = text_of()
    forget_everything()
    report = import_text(tmp_path, text)
    assert text_of() == text
    assert (report.imported, report.new_ends) == (4, 0)


def test_endings_are_numbered_after_those_that_are_there(tmp_path: Path) -> None:
    make_episode(id=3, end_number=2)
    make_episode(id=4, end_number=1)
    text = text_of()
    forget_everything()
    make_episode(id=1, end_number=40)
    catch_up()
    report = import_text(tmp_path, text)
    assert list(Episode.objects.order_by("pk").values_list("pk", "end_number")) == [
        (1, 40),
        (3, 41),
        (4, 42),
    ]
    assert report.new_ends == 2 and "(2 with a new ending number)" in report.sentence


def test_endings_of_two_databases_do_not_share_a_number(tmp_path: Path) -> None:
    make_episode(id=3, end_number=5)
    make_episode(id=4, end_number=9)
    texts = (
        text_of(),
        text_of().replace("session-", "other-").replace('"end_number": 9', '"end_number": 10'),
    )
    forget_everything()
    assert import_text(tmp_path, *texts).new_ends == 1
    assert sorted(Episode.objects.values_list("end_number", flat=True)) == [5, 9, 10, 11]


@pytest.mark.parametrize("number", [-1, 0, 2**63 - 1])
def test_a_number_that_no_database_gives_is_not_taken_over(tmp_path: Path, number: int) -> None:
    make_episode(end_number=7)
    text = text_of().replace('"end_number": 7', f'"end_number": {number}')
    forget_everything()
    assert import_text(tmp_path, text).imported == 1
    assert Episode.objects.get().end_number == 1


def test_what_is_missing_is_made_and_nothing_is_served(tmp_path: Path) -> None:
    environment = make_environment(
        "shop", default_return="max", reward_high=5.0, success_threshold=3.0
    )
    task = make_task(environment=environment)
    make_episode(task=task, split=make_split(task, environment=environment), run=make_run())
    text = text_of()
    forget_everything()
    import_text(tmp_path, text)
    made = Environment.objects.get()
    assert (made.name, made.definition, made.declared_high, made.is_hosted) == (
        "shop",
        "max > 3.0",
        5.0,
        False,
    )
    assert list(Split.objects.values_list("name", "type", "is_served")) == [
        ("train", "train", False)
    ]


def test_what_is_there_is_used_and_stays(tmp_path: Path) -> None:
    task = make_task({"a": 1, "b": 2})
    make_episode(task=task)
    changed = (
        text_of()
        .replace('{"a": 1, "b": 2}', '{"b":2, "a":1}')
        .replace('"success_threshold": 0.9', '"success_threshold": 5.0')
    )
    Episode.objects.all().delete()
    import_text(tmp_path, changed)
    assert Episode.objects.get().task == task
    assert Environment.objects.get().success_threshold == 0.9


def test_statistics_of_tasks_follow(tmp_path: Path) -> None:
    task = make_task()
    for value in (0.0, 1.0, 1.0):
        make_episode(task=task, return_sum=value, run=make_run(), model="m")
    make_episode(task=task, is_probe=True)
    text = text_of()
    forget_everything()
    import_text(tmp_path, text)
    assert TaskStatistics.objects.get(by="all").attempts == 3
    assert stored() == recounted()


def test_runs_of_one_title_stay_apart_in_a_file_and_beside_those_that_are_here(
    tmp_path: Path,
) -> None:
    for number, own_id in ((1, ""), (2, "mine")):
        run, _ = Run.objects.begin(
            "tiny", created=NOW + timedelta(days=number), model=f"m-{number}", own_id=own_id
        )
        make_episode(run=run, session_id=f"session-{number}")
    text, facts = text_of(), ("name", "title", "number", "own_id", "model")
    before = list(Run.objects.order_by("number").values_list(*facts))
    assert import_text(tmp_path, text).imported == 0
    assert list(Run.objects.order_by("number").values_list(*facts)) == before
    forget_everything()
    import_text(tmp_path, text)
    assert list(Run.objects.order_by("number").values_list(*facts)) == before
    forget_everything()
    here = make_run("tiny")
    import_text(tmp_path, text)
    import_text(tmp_path, text)
    assert list(Episode.objects.order_by("pk").values_list("run__name", "model")) == [
        ("tiny (2)", ""),
        ("tiny (3)", ""),
    ]
    assert not Episode.objects.filter(run=here).exists()
