"""Tests of the page that compares two episodes."""

from __future__ import annotations

import json
import re

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from episodes.models import Episode
from episodes.transcript.comparison import ROWS
from tests.rows import each
from tests.stored import make_blob, make_episode, make_step, make_task

pytestmark = pytest.mark.django_db


def episode_of(*answers: str, **values: object) -> Episode:
    """Return an episode with one step for each answer; the prefix `x:` makes the step a call of
    tool `x`."""
    episode = make_episode(**values)
    for index, answer in enumerate(answers):
        tool, _, text = answer.rpartition(":")
        make_step(episode, text, index=index, tool=tool or "look")
    return episode


def compared(client: Client, left: Episode, right: Episode, query: str = "") -> str:
    response = client.get(f"/compare/?episodes={left.pk},{right.pk}{query}")
    assert response.status_code == 200
    return response.content.decode()


def verdicts(page: str) -> list[str]:
    return re.findall(r'id="row-\d+" data-verdict="(\w+)"', page)


def test_it_lays_steps_side_by_side(client: Client) -> None:
    task = make_task()
    left = episode_of("one", "two", "dig:three", task=task, return_sum=0.25)
    right = episode_of("one", "deux", "eat:drei", "four", task=task, return_sum=-0.75)
    page = compared(client, left, right)
    assert verdicts(page) == ["same", "answer", "call", "right"]
    for shown in (
        "deux",
        "drei",
        "+0.25",
        "\N{MINUS SIGN}0.75",
        "They diverge at",
        'id="divergence"',
    ):
        assert shown in page


def test_the_order_of_keys_makes_no_other_call(client: Client) -> None:
    left, right = make_episode(), make_episode()
    make_step(left, input='{"a": 1, "b": 2}')
    make_step(right, input='{"b":2,"a":1}')
    assert verdicts(compared(client, left, right)) == ["same"]


def test_large_inputs_and_outputs_are_compared_too(client: Client) -> None:
    left, right = make_episode(), make_episode()
    for episode, text in ((left, "a"), (right, "b")):
        output = json.dumps({"blocks": [{"type": "text", "text": text * 9_000}]})
        make_step(
            episode,
            input="",
            input_blob=make_blob('{"x": 1}'),
            output="",
            output_blob=make_blob(output),
        )
    assert verdicts(compared(client, left, right)) == ["answer"]


def test_it_says_when_nothing_differs(client: Client) -> None:
    task = make_task()
    page = compared(client, episode_of("one", task=task), episode_of("one", task=task))
    assert (
        "Both made the same calls and got the same outputs." in page
        and "different tasks" not in page
    )


def test_it_says_when_the_tasks_differ(client: Client) -> None:
    assert "played different tasks" in compared(client, episode_of("one"), episode_of("one"))


def test_it_shows_the_returns_by_the_definition_requested(client: Client) -> None:
    left, right = make_episode(return_max=0.125), make_episode(return_max=0.25)
    assert 'title="0.125"' in compared(client, left, right, "&return=max")


def test_it_shows_a_window_of_the_rows(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    left, right = (episode_of(*(f"said {n}" for n in range(2 * ROWS))) for _ in range(2))
    compared(client, left, right)  # creates the operator, who has then seen the task
    # one more than in a server, where another thread notes seen tasks
    with django_assert_num_queries(11):
        page = compared(client, left, right, f"&row={ROWS + 3}")
    assert len(verdicts(page)) == ROWS and f'id="row-{ROWS}"' in page and 'rel="prev"' in page


def test_hostile_texts_are_text(client: Client) -> None:
    page = compared(client, episode_of("<script>x"), episode_of("<script>y", "<script>:\u202ez"))
    assert "<script>x" not in page and "<script>y" not in page and "⟦RLO⟧" in page


@each(
    ("query", "expected"),
    [
        ("episodes=1", "give two different episode numbers"),
        ("episodes=1,1", "give two different episode numbers"),
        ("episodes=1,2,3", "give two different episode numbers"),
        ("episodes=a,b", "give two different episode numbers"),
        (f"episodes=1,{2**63}", "give two different episode numbers"),
        ("episodes=7777777,8888888", "there is no episode 7777777"),
    ],
)
def test_anything_but_two_episodes_is_refused(client: Client, query: str, expected: str) -> None:
    response = client.get(f"/compare/?{query}")
    assert response.status_code == 400 and expected in response.content.decode()


def test_an_unknown_definition_is_refused(client: Client) -> None:
    left, right = make_episode(), make_episode()
    response = client.get(f"/compare/?episodes={left.pk},{right.pk}&return=best")
    assert response.status_code == 400 and "sum, last, max, mean" in response.content.decode()


def test_without_a_choice_it_says_how_to_choose(client: Client) -> None:
    assert "Compare two episodes" in client.get("/compare/").content.decode()


def test_a_long_output_can_be_opened_in_full(client: Client) -> None:
    left, right = episode_of("word " * 1_000), episode_of("two")
    page = compared(client, left, right)
    [whole] = set(re.findall(r'hx-get="([^"]+)" hx-target="closest .said-block"', page))
    assert whole == f"/episodes/{left.pk}/steps/0/?part=output-0"
    assert client.get(whole, headers={"HX-Request": "true"}).content.decode().count("word") == 1_000


def test_it_suggests_two_attempts_at_a_task_of_which_one_succeeded(client: Client) -> None:
    task = make_task({"question": "Investigate the outage."})
    failed, _, solved = (make_episode(task=task, return_sum=value) for value in (0.0, 0.1, 1.0))
    make_episode(return_sum=1.0)
    page = client.get("/compare/").content.decode()
    assert re.findall(r'href="/compare/\?episodes=([\d,]+)"', page) == [
        f"{failed.pk + 1},{solved.pk}"
    ]
    assert "Investigate the outage." in page


def test_it_suggests_nothing_where_all_failed(client: Client) -> None:
    task = make_task()
    for value in (0.0, 0.1):
        make_episode(task=task, return_sum=value)
    assert "?episodes=" not in client.get("/compare/").content.decode()
