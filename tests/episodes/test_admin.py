"""The admin of what was played, as a person at the pages sees it."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from environments.models import CurationAction, SecurityEvent
from episodes.models import Episode
from episodes.transcript.steps import STEPS_PER_PAGE
from tests.people import member
from tests.rows import each
from tests.stored import (
    NOW,
    make_blob,
    make_environment,
    make_episode,
    make_run,
    make_split,
    make_step,
    make_task,
)

pytestmark = pytest.mark.django_db

LIST = "/admin/episodes/episode/"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HOSTILE = "</pre><script>alert(1)</script>"


def listed(client: Client, query: str = "") -> list[int]:
    """Return the episode numbers in the order of the list."""
    page = client.get(LIST + query).content.decode()
    return [int(number) for number in re.findall(r">#(\d+)</a>", page)]


def page_of(client: Client, episode: Episode, query: str = "") -> str:
    response = client.get(reverse("admin:episodes_episode_change", args=[episode.pk]) + query)
    assert response.status_code == 200
    return response.content.decode()


def output_of(*blocks: dict[str, Any], metadata: Any = None) -> str:
    return json.dumps({"blocks": blocks, "metadata": metadata, "reward": None, "finished": False})


# --- the list -------------------------------------------------------------------------------------


def test_it_lists_episodes_newest_first(client: Client) -> None:
    first, second = make_episode(), make_episode()
    assert listed(client) == [second.pk, first.pk]


def test_it_says_how_an_episode_went_in_one_row(client: Client) -> None:
    task = make_task({"question": "How many dogs?"})
    run = make_run()
    make_episode(
        task=task,
        split=make_split(task),
        task_index=12,
        run=run,
        model="model-x",
        return_sum=0.75,
        steps_count=7,
        duration_seconds=4.1,
    )
    page, named = client.get(LIST).content.decode(), "train #0</b> How many dogs?"
    for shown in (
        "finished",
        named,
        "grpo-3",
        "model-x",
        "+0.75",
        '<span class="number">7',
        "4.1 s",
    ):
        assert shown in page
    assert named in client.get(f"/admin/episodes/run/{run.pk}/change/").content.decode()


@pytest.mark.parametrize(
    ("facts", "label"),
    [
        ({"status": "running", "cause": ""}, "running"),
        ({"cause": "setup_failed"}, "setup failed"),
        ({"cause": "env_error"}, "environment error"),
        ({"cause": "expired", "is_probe": True}, "not played"),
        ({"cause": "finished", "is_probe": True, "steps_count": 2}, "no reward"),
    ],
)
def test_it_marks_every_ending_with_its_label(
    client: Client, facts: dict[str, Any], label: str
) -> None:
    make_episode(**facts)
    assert f"</b>{label}</span>" in client.get(LIST).content.decode()


@pytest.mark.parametrize(
    ("query", "facts"),
    [
        ("?ending=env_error", {"cause": "env_error"}),
        ("?ending=running", {"status": "running", "cause": ""}),
        ("?player=human", {"player": "human"}),
        ("?player=script", {"player": "script"}),
        ("?probes=only", {"cause": "expired", "is_probe": True}),
        ("?probes=only&ending=expired", {"cause": "expired", "is_probe": True}),
    ],
)
def test_it_filters(client: Client, query: str, facts: dict[str, Any]) -> None:
    make_episode()
    wanted = make_episode(**facts)
    assert listed(client, query) == [wanted.pk]


def test_an_ending_is_found_without_probes(client: Client) -> None:
    wanted = make_episode(cause="expired")
    make_episode(cause="expired", is_probe=True)
    assert listed(client, "?ending=expired") == [wanted.pk]


def test_it_filters_by_environment_run_and_task(client: Client) -> None:
    make_episode()
    wanted = make_episode(environment=make_environment("guess"), run=make_run())
    for query in (
        f"?environment={wanted.environment_id}",
        f"?run={wanted.run_id}",
        f"?task={wanted.task_id}",
    ):
        assert listed(client, query) == [wanted.pk]


@each("value", ["x", "-1", "9" * 19, "9" * 5000])
@each("name", ["environment", "run"])
def test_a_filter_that_names_nothing_is_refused(client: Client, name: str, value: str) -> None:
    make_episode(run=make_run())
    page = client.get(f"{LIST}?{name}={value}")
    assert (page.status_code, f"there is no {name} of that number" in page.content.decode()) == (
        400,
        True,
    )


def test_it_finds_by_session_number_and_run(client: Client) -> None:
    make_episode()
    wanted = make_episode(run=make_run("eval-2026"))
    for term in (wanted.session_id, str(wanted.pk), "EVAL"):
        assert listed(client, f"?q={term}") == [wanted.pk]


def test_its_queries_do_not_grow_with_the_list(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client.get(LIST)  # makes the operator
    for _ in range(20):
        make_episode(run=make_run())
    # operator, environments, runs, the page, places of tasks
    with django_assert_num_queries(5) as queries:
        client.get(LIST)
    assert not [query for query in queries.captured_queries if "COUNT(" in query["sql"]]


def test_it_offers_no_way_to_change_what_was_recorded(client: Client) -> None:
    episode = make_episode()
    change = reverse("admin:episodes_episode_change", args=[episode.pk])
    delete = reverse("admin:episodes_episode_delete", args=[episode.pk])
    # to the page that shows what would go
    assert client.post(delete, {"post": "yes"}).status_code == 302
    assert client.get(LIST + "add/").status_code == 403
    client.post(change, {"cause": "expired"})
    assert Episode.objects.get().cause == "finished"  # and it is still there


def test_it_says_what_would_be_here(client: Client) -> None:
    assert "Every session that an agent opens is recorded here" in client.get(LIST).content.decode()


@pytest.mark.parametrize("value", [1e308, -1e308, sys.float_info.max])
def test_it_lists_an_episode_of_a_huge_return(client: Client, value: float) -> None:
    episode = make_episode(return_sum=value)
    make_step(episode, reward=value)
    assert listed(client) == [episode.pk]
    assert f'data-level="{3 if value > 0 else -3}"' in page_of(client, episode)
    assert client.get("/").status_code == 200


# --- one episode ----------------------------------------------------------------------------------


def test_it_shows_a_step_whole(client: Client) -> None:
    step = make_step(
        make_episode(), "The answer is 42.", reward=-0.5, duration_ms=120.4, waited_ms=35.0
    )
    page = page_of(client, step.episode)
    for shown in (
        "submit",
        "answer",
        "The answer is 42.",
        "\N{MINUS SIGN}0.50",
        "120 ms",
        "35 ms",
        step.task_id,
    ):
        assert shown in page


def test_it_shows_every_recorded_fact(client: Client) -> None:
    labels = json.dumps({"temperature": "0.7"})
    episode = make_episode(
        key_label="lab",
        run=make_run(),
        run_step=31,
        labels=labels,
        detail="why it ended",
        return_mean=0.75,
    )
    page = page_of(client, episode)
    for shown in (
        "lab",
        "grpo-3",
        "step 31",
        "temperature",
        "why it ended",
        "+0.75",
        episode.session_id,
    ):
        assert shown in page


def test_it_sums_rewards_across_pages(client: Client) -> None:
    episode = make_episode()
    for index in range(STEPS_PER_PAGE + 2):
        make_step(episode, index=index, reward=0.5)
    page = page_of(client, episode, f"?step={STEPS_PER_PAGE + 1}")
    assert f"Σ +{(STEPS_PER_PAGE + 2) / 2:.2f}" in page
    assert 'id="step-199"' not in page and 'id="step-201"' in page


@each(
    ("steps", "heading"),
    [
        (0, "Steps"),
        (1, "1 step"),
        (5, "5 steps"),
        (STEPS_PER_PAGE, "200 steps"),
        (1000, "Steps 0\N{EN DASH}199 of 1,000"),
    ],
)
def test_it_says_which_steps_the_page_shows(client: Client, steps: int, heading: str) -> None:
    episode = make_episode()
    for index in {*range(min(steps, 3)), *range(steps)[-1:]}:
        make_step(episode, index=index)
    assert f'<h2 id="steps">{heading}</h2>' in page_of(client, episode)


def test_it_says_which_steps_the_last_page_shows(client: Client) -> None:
    episode = make_episode()
    for index in (0, 200, 234):
        make_step(episode, index=index)
    assert '<h2 id="steps">Steps 200\N{EN DASH}234 of 235</h2>' in page_of(
        client, episode, "?step=200"
    )


@each("step", ["-1", "x", "99999999999999999999"])
def test_a_step_that_is_none_is_refused(client: Client, step: str) -> None:
    episode = make_step(make_episode()).episode
    answer = client.get(reverse("admin:episodes_episode_change", args=[episode.pk]), {"step": step})
    assert (answer.status_code, "it has to be a number" in answer.content.decode()) == (400, True)


def test_it_shows_the_last_page_for_a_step_beyond_the_end(client: Client) -> None:
    assert 'id="step-0"' in page_of(client, make_step(make_episode()).episode, "?step=5000")


def test_it_shows_a_refusal_with_its_reason(client: Client) -> None:
    step = make_step(
        make_episode(),
        status="refused",
        reason="not_found",
        error="'x' is not a valid tool",
        output="",
    )
    page = page_of(client, step.episode)
    assert "refused: not_found" in page and "&#x27;x&#x27; is not a valid tool" in page


def test_it_shows_prompt_tools_and_task(client: Client) -> None:
    prompt = json.dumps(
        [{"role": "system", "blocks": [{"type": "text", "text": "You are careful."}]}]
    )
    tools = json.dumps(
        {"tools": [{"name": "bash", "description": "Run it.", "input_schema": {"type": "object"}}]}
    )
    task = make_task({"goal": "Find the largest order.\nWrite its id."})
    page = page_of(
        client, make_episode(task=task, prompt=make_blob(prompt), tools=make_blob(tools))
    )
    for shown in (
        "system",
        "You are careful.",
        "bash",
        "Run it.",
        "Find the largest order.\nWrite its id.",
    ):
        assert shown in page


def test_it_shows_images_inline(client: Client) -> None:
    image = {"type": "image", "mimeType": "image/png", "data": PIXEL}
    step = make_step(make_episode(), output=output_of(image))
    assert f'src="data:image/png;base64,{PIXEL}"' in page_of(client, step.episode)


@pytest.mark.parametrize(
    "image",
    [
        {"type": "image", "mimeType": "text/html", "data": PIXEL},
        {"type": "image", "mimeType": "image/png", "data": '" onerror="alert(1)'},
        {"type": "image", "mimeType": None, "data": 7},
    ],
)
def test_it_shows_as_json_what_is_no_image(client: Client, image: dict[str, Any]) -> None:
    page = page_of(client, make_step(make_episode(), output=output_of(image)).episode)
    assert 'src="data:' not in page and "mimeType" in page


def test_it_escapes_whatever_was_said(client: Client) -> None:
    hostile_json = json.dumps({HOSTILE: HOSTILE})
    tool = {"name": HOSTILE, "description": HOSTILE, "input_schema": {"a": HOSTILE}}
    episode = make_episode(
        task=make_task({HOSTILE: HOSTILE}),
        user_agent=HOSTILE,
        session_id=HOSTILE,
        detail=HOSTILE,
        labels=hostile_json,
        prompt=make_blob(json.dumps([{"type": "text", "text": HOSTILE}])),
        tools=make_blob(json.dumps({"tools": [tool]})),
    )
    output = output_of(
        {"type": "text", "text": HOSTILE}, {"type": HOSTILE}, metadata={HOSTILE: HOSTILE}
    )
    make_step(
        episode, tool=HOSTILE, input=hostile_json, output=output, error=HOSTILE, reason=HOSTILE[:40]
    )
    assert "<script>alert" not in page_of(client, episode)
    assert "<script>alert" not in client.get(LIST).content.decode()


@each(
    "output",
    [
        "not json",
        "[1, 2]",
        '{"blocks": 3}',
        '{"blocks": [null]}',
        "[" * 100_000,
        r'{"blocks": "\ud800"}',
    ],
)
def test_it_shows_a_step_whose_output_is_odd(client: Client, output: str) -> None:
    assert 'id="step-0"' in page_of(client, make_step(make_episode(), output=output).episode)


def test_it_shows_lone_surrogates_as_escapes(client: Client) -> None:
    output = output_of({"type": "text", "text": "a\ud800b"})
    assert r"a\ud800b" in page_of(client, make_step(make_episode(), output=output).episode)


def test_it_cuts_a_long_text_and_leads_to_the_whole(client: Client) -> None:
    step = make_step(make_episode(), "x" * 50_000)
    page = page_of(client, step.episode)
    assert "30000 more characters" in page and "x" * 20_001 not in page
    assert f"{LIST}{step.episode_id}/steps/0.json" in page


def test_it_leaves_out_what_is_too_large_for_a_page(client: Client) -> None:
    blob = make_blob(output_of({"type": "text", "text": "y" * 3_000_000}))
    page = page_of(client, make_step(make_episode(), output="", output_blob=blob).episode)
    assert "Too large for this page" in page and len(page) < 100_000


def test_it_tells_a_step_whole_as_json(client: Client) -> None:
    output = output_of({"type": "text", "text": "kept"}, metadata={"exact": 1e20})
    step = make_step(make_episode(), output="", output_blob=make_blob(output), reward=0.5)
    response = client.get(f"{LIST}{step.episode_id}/steps/0.json")
    assert (
        response["Content-Type"] == "application/json"
        and response["X-Content-Type-Options"] == "nosniff"
    )
    assert output in response.content.decode()
    assert response.json()["reward"] == 0.5 and response.json()["input"] == {"answer": 42}


@pytest.mark.parametrize(("name", "told"), [("prompt", [1]), ("task", {"a": 2}), ("tools", None)])
def test_it_tells_prompt_task_and_tools_as_json(client: Client, name: str, told: Any) -> None:
    episode = make_episode(task=make_task({"a": 2}), prompt=make_blob("[1]"))
    assert client.get(f"{LIST}{episode.pk}/{name}.json").json() == told


@pytest.mark.parametrize("path", ["{}/steps/7.json", "{}/secrets.json", "999999/prompt.json"])
def test_it_answers_404_for_what_was_not_recorded(client: Client, path: str) -> None:
    assert client.get(LIST + path.format(make_episode().pk)).status_code == 404


def test_its_queries_do_not_grow_with_the_steps(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    episode = make_episode(prompt=make_blob("[]"), tools=make_blob("{}"), run=make_run())
    for index in range(20):
        make_step(
            episode,
            output="",
            output_blob=make_blob(output_of({"type": "text", "text": str(index)})),
        )
    page_of(client, episode)  # makes the operator
    # operator, episode, place of the task, extent, steps, blobs, who has seen it
    with django_assert_num_queries(7):
        page_of(client, episode)


# --- runs -----------------------------------------------------------------------------------------


def test_it_lists_runs_with_their_episodes(client: Client) -> None:
    for _ in range(3):
        make_episode(run=make_run())
    page = client.get("/admin/episodes/run/").content.decode()
    assert "grpo-3" in page and '<span class="number">3</span>' in page


def test_it_shows_a_runs_latest_episodes(client: Client) -> None:
    episode = make_episode(run=make_run())
    page = client.get(reverse("admin:episodes_run_change", args=[episode.run_id])).content.decode()
    assert f">#{episode.pk}</a>" in page


SEARCHES = {
    "/admin/episodes/run/": "\u00e4PFEL gro\u00df",
    "/admin/episodes/episode/": "\u00e4PFEL",
    "/admin/environments/curationaction/": "m\u00dcller \u00e4PFEL",
    "/admin/environments/securityevent/": "MULLER",
    "/admin/auth/user/": "m\u00dcller",
    "/admin/auth/group/": "\u043c\u043e\u0441\u043a",
}


def test_lists_are_searched_whatever_the_case_and_accents(client: Client) -> None:
    client.force_login(member(name="M\u00fcller", is_superuser=True, is_staff=True))
    Group.objects.create(name="\u041c\u041e\u0421\u041a\u0412\u0410")
    make_episode(run=make_run("\u00c4pfel-GROSS"))
    CurationAction.objects.create(
        kind="edit", token="t", author="M\u00fcller", title="\u00c4pfel", created=NOW
    )
    SecurityEvent.objects.create(at=NOW, kind="exported", who="M\u00fcller")
    for path, text in SEARCHES.items():
        assert client.get(path, {"q": text}).context_data["cl"].result_list, path
        assert not client.get(path, {"q": f"{text}\u0131"}).context_data["cl"].result_list, path
