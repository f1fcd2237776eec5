"""Tests of /api/rollouts: uploaded rollouts and their messages."""

from __future__ import annotations

import pytest

from episodes.models import Episode
from episodes.rollups.follower import catch_up
from tests.episodes.api.asking import get, ids, pages
from tests.episodes.reported import played, reported
from tests.stored import make_run, make_split

pytestmark = pytest.mark.django_db(transaction=True)

LAB, HOME = {"X-API-Key": "lab-key-1"}, {"X-API-Key": "home-key-1"}


def test_the_list_has_figures_and_the_episode() -> None:
    episode = played()
    rollout = reported(run=make_run(), run_step=4, model="m-1")
    catch_up()
    (row,) = get("rollouts")["results"]
    expected = {
        "id": rollout.pk,
        "episode": episode.pk,
        "joined_by": "calls",
        "run": "grpo-3",
        "step": 4,
    }
    expected |= {
        "model": "m-1",
        "messages": 6,
        "reward": 0.5,
        "environment": "acme/echo",
        "title": "grpo-3 · echo",
    }
    assert {name: row[name] for name in expected} == expected
    assert row["usage"] == dict.fromkeys(
        ("input_tokens", "output_tokens", "reasoning_tokens", "cached_tokens", "cost")
    )
    assert row["html_url"] == "http://testserver/conversations/r-1/"


def test_what_the_client_leaves_out_is_that_of_the_episode() -> None:
    run = make_run("grpo-9")
    facts = {"run": run, "run_step": 6, "model": "m-7", "task_index": 3}
    episode = played()
    Episode.objects.filter(pk=episode.pk).update(split=make_split(episode.task), **facts)
    reported(run=run)
    catch_up()
    (row,) = get("rollouts?model=m-7")["results"]
    expected = {
        "model": "m-7",
        "split": "train",
        "task_index": 3,
        "step": 6,
        "title": "grpo-9 · echo · train #3",
    }
    assert {name: row[name] for name in expected} == expected
    one = get(f"rollouts/{row['id']}")
    assert {name: one[name] for name in expected} == expected


def test_it_takes_the_filters_of_the_page() -> None:
    episode = played()
    mine, alone = reported(), reported("alone", environment_name="chess")
    catch_up()
    assert ids("rollouts?joined=no") == [alone.pk]
    assert ids(f"rollouts?episode={episode.pk}") == [mine.pk]
    assert ids("rollouts?text=four") == [alone.pk, mine.pk]
    assert get("rollouts?joined=x", 400)["allowed"] == "yes, guess, no"
    assert get("rollouts?nope=1", 400)["field"] == "nope"


def test_pages_follow_each_other() -> None:
    made = [reported(f"r-{number}", messages=[]).pk for number in range(5)]
    assert pages("rollouts?limit=2") == made[::-1]


def test_messages_come_in_order_and_page_by_page() -> None:
    rollout = reported()
    first = get(f"rollouts/{rollout.pk}/messages?limit=4")
    rest = get(first["next"].partition("/api/")[2])
    rows = [*first["results"], *rest["results"]]
    assert [row["index"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert rest["next"] is None
    assert (rows[2]["type"], rows[2]["content"], rows[2]["summary"]) == (
        "reasoning",
        "It must be four.",
        "thinking",
    )
    assert (rows[4]["name"], rows[4]["call_id"]) == ("echo", "c1")


def test_one_has_what_its_client_said() -> None:
    rollout = reported(
        event='{"runName": "a", "metadata": {"x": 1}}', info='{"task_index": [5, 2]}'
    )
    answer = get(f"rollouts/{rollout.pk}")
    assert answer["event"] == {"runName": "a", "metadata": {"x": 1}}
    assert answer["info"] == {"task_index": 2}
    assert answer["messages"] == 6
    assert get("rollouts/999999", 404)["detail"] == "There is no rollout 999999."


@pytest.mark.usefixtures("keys")
def test_a_key_reads_its_own() -> None:
    mine, other = reported("mine", key_label="lab"), reported("other", key_label="home")
    assert ids("rollouts", **LAB) == [mine.pk]
    get(f"rollouts/{mine.pk}/messages", **LAB)
    get(f"rollouts/{other.pk}", 404, **LAB)
    get(f"rollouts/{other.pk}/messages", 404, **LAB)
    get("rollouts", 401)
