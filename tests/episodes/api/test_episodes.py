"""Tests of episodes and their steps in the API."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from episodes.api import steps
from episodes.models import Play
from tests.episodes.api.asking import get, ids, pages
from tests.stored import make_blob, make_episode, make_run, make_split, make_step, make_task

pytestmark = pytest.mark.django_db


def test_an_episode_refers_to_others_by_name() -> None:
    task = make_task()
    episode = make_episode(
        task=task, split=make_split(task), run=make_run(), run_step=3, return_sum=1.5
    )
    [content] = get("episodes")["results"]
    named = (
        content["environment"],
        content["split"],
        content["run"],
        content["step"],
        content["task"]["id"],
    )
    assert named == ("math", "train", "grpo-3", 3, task.pk)
    assert content["returns"] == {"sum": 1.5, "last": None, "max": None, "mean": None}
    assert content["created"] == "2026-01-02T03:04:05.000000Z"
    assert content["url"] == f"http://testserver/api/episodes/{episode.pk}"


def test_one_that_runs_has_no_return_yet() -> None:
    content = get(f"episodes/{make_episode(status='running', cause='', ended=None).pk}")
    assert content["returns"] == {"sum": None, "last": None, "max": None, "mean": None}


def test_people_have_names_and_others_none() -> None:
    make_episode(player="human", key_label="@ada")
    make_episode(key_label="lab")
    assert [content["who"] for content in get("episodes")["results"]] == [None, "@ada"]
    assert len(ids("episodes?who=@ada")) == 1


def test_it_says_how_a_person_played() -> None:
    parent = make_episode()
    play = Play.objects.create(
        episode=make_episode(player="human"), is_blind=True, parent=parent, parent_step=2
    )
    found = get(f"episodes/{play.pk}")["play"]
    facts = {
        "is_blind": True,
        "is_repeat": False,
        "counts_left": None,
        "is_excluded": False,
        "study": None,
    }
    facts |= {"continues": parent.pk, "continues_step": 2}
    assert found == facts and get(f"episodes/{parent.pk}")["play"] is None


def test_one_episode_is_returned_with_task_prompt_and_tools() -> None:
    texts = {
        "prompt": make_blob('[{"type": "text", "text": "\\u00e9"}]'),
        "tools": make_blob('{"tools": []}'),
    }
    episode = make_episode(labels='{"seed": 1e20}', **texts)
    content = get(f"episodes/{episode.pk}")
    assert content["prompt"] == [{"type": "text", "text": "\u00e9"}]
    assert (content["tools"], content["labels"]) == ({"tools": []}, {"seed": 1e20})
    assert content["spec"] == json.loads(episode.task.spec)
    assert content.keys() > get("episodes")["results"][0].keys() - {"snippet"}


def test_what_an_episode_lacks_is_null() -> None:
    content = get(f"episodes/{make_episode().pk}")
    assert (content["prompt"], content["tools"], content["run"], content["split"]) == (
        None,
        None,
        None,
        None,
    )


def test_episodes_come_newest_first_page_by_page_and_back() -> None:
    made = [make_episode().pk for _ in range(5)]
    assert pages("episodes?limit=2") == made[::-1]
    second = get("episodes?limit=2")["next"].partition("/api/")[2]
    assert ids(get(second)["previous"].partition("/api/")[2]) == made[:2:-1]


def test_filters_are_those_of_the_pages() -> None:
    make_episode(is_probe=True, cause="abandoned")
    attempt = make_episode(return_sum=2.0, end_number=1)
    assert ids("episodes?ending=attempt&return_from=1") == [attempt.pk]


def test_a_name_that_nothing_has_is_refused_with_the_nearest() -> None:
    make_episode(run=make_run("grpo-3"))
    assert "grpo-3" in get("episodes?run=grpo-4", 400)["detail"]


@pytest.mark.parametrize(
    ("query", "queries"), [("", 2), ("?sort=-return", 4), ("?ending=attempt", 3)]
)
def test_a_page_costs_as_many_queries_however_long(
    query: str, queries: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(4):
        make_episode(end_number=number)
    get(f"episodes{query}")
    with django_assert_num_queries(1 + queries):  # the operator, and the queries of browse.py
        get(f"episodes{query}")


def test_steps_are_returned_with_their_exact_texts() -> None:
    episode = make_episode()
    output = '{"blocks": [], "metadata": {"a": 1e20, "b": -0.0}, "reward": 0.5, "finished": true}'
    make_step(episode, input='{"z": 1.0, "a": [1E2]}', output=output, reward=0.5, finished=True)
    body = Client().get(f"/api/episodes/{episode.pk}/steps").content.decode()
    assert '"input": {"z": 1.0, "a": [1E2]}' in body and f'"output": {output}' in body
    [content] = json.loads(body)["results"]
    assert (content["index"], content["tool"], content["reward"], content["finished"]) == (
        0,
        "submit",
        0.5,
        True,
    )


def test_steps_come_in_order_page_by_page() -> None:
    episode = make_episode()
    for _ in range(5):
        make_step(episode)
    first = get(f"episodes/{episode.pk}/steps?limit=3")
    second = get(first["next"].partition("/api/")[2])
    assert [one["index"] for one in first["results"] + second["results"]] == [0, 1, 2, 3, 4]
    assert second["next"] is None


def test_one_step_is_returned() -> None:
    episode = make_episode()
    make_step(episode, status="refused", error="no such tool", output="")
    content = get(f"episodes/{episode.pk}/steps/0")
    assert (content["status"], content["error"], content["output"]) == (
        "refused",
        "no such tool",
        None,
    )
    get(f"episodes/{episode.pk}/steps/1", 404)


def test_a_page_of_steps_ends_before_it_grows_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MAX_BLOB_BYTES", 25)
    episode = make_episode()
    for number in range(4):
        # 22 bytes
        make_step(episode, input="", input_blob=make_blob(f'{{"text": "{number:010}"}}'))
    answer = get(f"episodes/{episode.pk}/steps")
    assert [one["input"]["text"] for one in answer["results"]] == ["0000000000"]
    assert answer["next"].endswith("after=0")


def test_steps_cost_as_many_queries_however_many(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    episode = make_episode()
    for number in range(4):
        make_step(episode, output="", output_blob=make_blob(f'{{"blocks": [], "n": {number}}}'))
    get("episodes")
    with django_assert_num_queries(4):  # the operator, the episode, steps, blobs
        get(f"episodes/{episode.pk}/steps")


def test_hostile_text_is_a_string_in_json() -> None:
    episode = make_episode(model="</script><b>\u202e", session_id="\u2028\x1b[31m")
    content = get(f"episodes/{episode.pk}")
    assert (content["model"], content["session_id"]) == ("</script><b>\u202e", "\u2028\x1b[31m")
