"""Tests of the replay of an episode: the page and the addresses that it fetches."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.html import strip_tags
from pytest_django import DjangoAssertNumQueries

from environments.wire import NO_NUMBER
from episodes.dashboard.replay import WINDOW_STEPS
from episodes.models import Episode, EpisodeComponent, Play, RewardComponent, Step
from tests.episodes.transfer.record import text_of
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

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MINUS = "\N{MINUS SIGN}"
HTMX = {"HX-Request": "true"}


def seen(
    client: Client, episode: Episode, rest: str = "", status: int = 200, **headers: str
) -> str:
    """Return the page at `/episodes/<id>/` followed by `rest`."""
    response = client.get(f"/episodes/{episode.pk}/{rest}", headers=headers)
    assert response.status_code == status
    return response.content.decode()


def output_of(*texts: str, metadata: Any = None) -> str:
    blocks = [{"type": "text", "text": text, "detail": None} for text in texts]
    return json.dumps({"blocks": blocks, "metadata": metadata, "reward": None, "finished": False})


def with_steps(count: int, **values: Any) -> Episode:
    """Return an episode of `count` steps, each with a reward of 0.5."""
    episode = make_episode(**values)
    Step.objects.bulk_create(
        Step(
            **{
                "episode": episode,
                "index": n,
                "tool": f"tool-{n % 3}",
                "input": "{}",
                "output": output_of(f"said {n}"),
            },
            **{
                "reward": 0.5,
                "status": "ok",
                "task_id": str(n),
                "started": NOW,
                "duration_ms": 12.5,
            },
        )
        for n in range(count)
    )
    return episode


# --- what it shows --------------------------------------------------------------------------------


def test_a_reward_that_is_no_number_has_a_mark_on_every_page_and_in_every_export(
    client: Client,
) -> None:
    episode = make_episode(detail=f"Step 0: {NO_NUMBER}.", steps_count=1)
    make_step(episode, reward=None, reason=NO_NUMBER)
    page = seen(client, episode)
    assert f"finished, {NO_NUMBER}</span>" in page  # at the episode
    assert f'<span class="status">{NO_NUMBER}</span>' in page  # at its step
    assert f"finished, {NO_NUMBER}</span>" in client.get("/episodes/").content.decode()
    columns = json.loads(seen(client, episode, "rail.json"))
    assert columns["reason"] == {"0": NO_NUMBER}
    for format in ("jsonl", "csv", "atif"):
        assert f"Step 0: {NO_NUMBER}." in text_of(format)


def test_it_says_how_the_episode_went(client: Client) -> None:
    task = make_task()
    facts = {
        "run": make_run(),
        "run_step": 40,
        "model": "model-x",
        "return_sum": 0.75,
        "steps_count": 7,
    }
    counts = {"refused_count": 2, "duration_seconds": 4.1}
    episode = make_episode(task=task, split=make_split(task), task_index=12, **facts, **counts)
    page = seen(client, episode)
    for shown in (
        "finished",
        "train #0",
        "grpo-3",
        "step 40",
        "model-x",
        "+0.75",
        "7 steps",
        "2 refused",
        "4.1 s",
    ):
        assert shown in page
    assert f"/tasks/{task.pk}/group/?run={episode.run_id}&amp;step=40" in page


@each(
    ("ran", "failed", "refused", "expected"),
    [
        *((24, 1, 2, "24 steps, 1 failed + 2 refused"), (1, 1, 0, "1 step, 1 failed")),
        *((0, 0, 1, "0 steps + 1 refused"), (1000, 0, 0, "1,000 steps")),
    ],
)
def test_failed_calls_are_shown_with_the_number_of_steps(
    client: Client, ran: int, failed: int, refused: int, expected: str
) -> None:
    headline = seen(
        client,
        make_episode(steps_count=ran, failed_count=failed, refused_count=refused),
        "headline/",
    )
    assert expected in strip_tags(headline)


def test_it_shows_each_step_with_its_reward_and_the_return_so_far(client: Client) -> None:
    episode = make_episode()
    make_step(episode, "first", reward=0.25, waited_ms=44.0)
    make_step(episode, "second", reward=-1.0, finished=True)
    page = seen(client, episode)
    for shown in (
        "first",
        "+0.25",
        "12 ms",
        "+ 44 ms wait",
        "second",
        f"{MINUS}1.00",
        f"Σ {MINUS}0.75",
        ">finished<",
    ):
        assert shown in page


@pytest.mark.parametrize(
    ("definition", "expected"),
    [("max", "max +0.25"), ("last", f"last {MINUS}1.00"), ("mean", f"mean {MINUS}0.38")],
)
def test_the_return_so_far_follows_the_definition(
    client: Client, definition: str, expected: str
) -> None:
    episode = make_episode()
    make_step(episode, reward=0.25)
    make_step(episode, reward=-1.0)
    assert expected in seen(client, episode, f"?return={definition}")


def test_the_definition_is_the_environments_unless_another_is_requested(client: Client) -> None:
    episode = make_episode(
        environment=make_environment("maxed", default_return="max"), return_max=0.6, return_sum=9
    )
    page = seen(client, episode)
    assert 'title="0.6">+0.60</span></span> <span class="hint">(max)' in page
    assert "(sum)" in seen(client, episode, "?return=sum")


def test_an_unknown_definition_is_refused_with_the_legal_ones(client: Client) -> None:
    page = seen(client, make_episode(), "?return=median", 400)
    assert "median" in page and "sum, last, max, mean" in page


def test_it_shows_what_a_reward_is_made_of(client: Client) -> None:
    episode = make_episode()
    parts = {"progress": 0.5, "style": -0.25, "name": "x", "ok": True}
    make_step(episode, reward=0.25, output=output_of("x", metadata={"reward_components": parts}))
    page = seen(client, episode)
    assert (
        "<dt>progress</dt>" in page
        and f"{MINUS}0.25" in page
        and "<dt>name</dt>" not in page
        and "<dt>ok</dt>" not in page
    )


def test_it_shows_the_components_of_the_whole_episode_as_one_bar(client: Client) -> None:
    episode = make_episode()
    for name, value in (("progress", 1.5), ("<style>", -0.5)):
        component = RewardComponent.objects.create(environment_id=episode.environment_id, name=name)
        figures = dict.fromkeys(("value_sum", "value_last", "value_max", "value_mean"), value)
        EpisodeComponent.objects.create(episode=episode, component=component, **figures)
    page = seen(client, episode)
    assert (
        '<rect class="part-0" x="25.0" y="0" width="75.0" height="8"><title>progress 1.5</title></rect>'
        in page
    )
    assert '<rect class="part-1" x="0.0" y="0" width="25.0"' in page and "&lt;style&gt;" in page


def test_it_tells_why_a_call_was_refused_and_why_one_failed(client: Client) -> None:
    episode = make_episode()
    facts = {"output": "", "reward": None}
    make_step(
        episode, status="refused", reason="input_validation", error="'path' is required", **facts
    )
    make_step(episode, status="failed", reason="exception", error="RuntimeError: <gone>", **facts)
    page = seen(client, episode)
    assert "refused: input_validation" in page and "RuntimeError: &lt;gone&gt;" in page


def test_each_text_is_shown_as_what_it_is(client: Client) -> None:
    episode = make_episode()
    make_step(
        episode,
        tool="bash",
        input='{"command": "echo \\"$x\\""}',
        output=output_of("\x1b[31mred\x1b[0m"),
    )
    make_step(episode, output=output_of("# Title\n\n**bold** words", '{"a":1}', "so $\\frac12$"))
    page = seen(client, episode)
    for shown in (
        'class="ansi-red"',
        "<strong>bold</strong>",
        'class="tok-nt"',
        "<mfrac>",
        'class="tok-nb">echo',
    ):
        assert shown in page


def test_it_says_when_nothing_was_called(client: Client) -> None:
    assert "ended without a tool call" in seen(
        client, make_episode(cause="abandoned", is_probe=True)
    )
    assert "No tool calls yet" in seen(client, make_episode(status="running", cause="", ended=None))


@each("cause", ["abandoned", "expired", "interrupted", "env_error", "setup_failed"])
def test_it_says_how_an_episode_came_to_its_end(client: Client, cause: str) -> None:
    assert f'class="detail" data-ending="{cause}"' in seen(client, make_episode(cause=cause))


def test_it_shows_the_detail_of_an_ending_as_text(client: Client) -> None:
    assert "&lt;b&gt;boom⟦RLO⟧" in seen(
        client, make_episode(cause="env_error", detail="<b>boom\u202e")
    )


def test_it_shows_the_prompt_the_tools_and_the_task(client: Client) -> None:
    tools = {
        "tools": [
            {
                "name": "dig",
                "description": "Digs.",
                "input_schema": {"properties": {"depth": {"minimum": 2}}},
            }
        ]
    }
    prompt = make_blob(json.dumps([{"type": "text", "text": "Find **it**, `now`."}]))
    task = make_task({"question": "where?"})
    page = seen(client, make_episode(task=task, prompt=prompt, tools=make_blob(json.dumps(tools))))
    for shown in ("<strong>it</strong>", "Digs.", "at least 2", "where?"):
        assert shown in page


def test_the_task_is_behind_a_click_where_no_class_says_what_is_hidden(client: Client) -> None:
    page = seen(client, make_episode(environment=make_environment("gone", is_hosted=False)))
    assert "no longer hosted here" in page and '<details class="fold hidden-fields">' in page


def test_it_tells_the_other_attempts_at_the_task_and_the_rank_of_this_one(client: Client) -> None:
    task = make_task()
    make_episode(task=task, return_sum=1.0)
    make_episode(task=task, cause="env_error", return_sum=5.0)
    episode = make_episode(task=task, return_sum=0.5)
    page = seen(client, episode)
    assert "2 attempts" in page and "+0.75" in page and "#2" in page


def test_it_links_the_neighbours_of_the_same_task_and_run(client: Client) -> None:
    task, run = make_task(), make_run()
    first = make_episode(task=task)
    make_episode(task=task, is_probe=True)
    episode = make_episode(task=task, run=run)
    other = make_episode(run=run)
    page = seen(client, episode)
    assert (
        f'data-key="[" href="/episodes/{first.pk}/"' in page
        and f'data-key="}}" href="/episodes/{other.pk}/"' in page
    )
    assert 'data-key="]" href' not in page and 'data-key="{" href' not in page


def test_it_links_the_record_in_the_admin_and_the_file(client: Client) -> None:
    episode = make_episode()
    page = seen(client, episode)
    assert (
        f"/admin/episodes/episode/{episode.pk}/change/" in page
        and f"ids={episode.pk}&amp;format=jsonl" in page
    )


@pytest.mark.parametrize("number", [1, 2**63, 10**30])
def test_an_episode_that_is_not_there_is_said_to_be_gone(client: Client, number: int) -> None:
    response = client.get(f"/episodes/{number}/")
    assert response.status_code == 404 and "been deleted" in response.content.decode()


# --- windows of steps -----------------------------------------------------------------------------


def test_it_opens_the_window_that_holds_the_step_requested(client: Client) -> None:
    page = seen(client, with_steps(100), "?step=50")
    assert 'id="step-40"' in page and 'id="step-59"' in page and 'id="step-39"' not in page
    assert "Σ +20.50" in page and 'href="?step=0"' in page and 'href="?step=60"' in page


@pytest.mark.parametrize("asked", ["5000", "99999999999", str(2**63 - 1)])
def test_a_step_beyond_the_last_leads_to_the_last(client: Client, asked: str) -> None:
    assert 'id="step-89"' in seen(client, with_steps(90), f"?step={asked}")


def test_further_windows_are_fetched_alone(client: Client) -> None:
    window = seen(client, with_steps(100), "steps/?first=80&return=mean")
    assert "<html" not in window and 'id="step-99"' in window and "mean +0.50" in window


def test_the_rail_tells_every_step_in_columns(client: Client) -> None:
    episode = make_episode(status="running", cause="")
    make_step(episode, tool="dig", reward=0.1)
    times = {"duration_ms": 250.4, "waited_ms": 3.0}
    for seconds, values in (
        (1, {"tool": "look", "status": "failed", "reason": "timeout"}),
        (2, {"tool": "dig", "status": "refused"}),
    ):
        started = episode.created + timedelta(seconds=seconds)
        make_step(episode, output="", started=started, **times, **values)
    rail = json.loads(seen(client, episode, "rail.json?first=1"))
    assert rail == {
        **{
            "first": 1,
            "total": 3,
            "status": "running",
            "tools": ["look", "dig"],
            "tool": [0, 1],
            "state": "fr",
        },
        **{"reason": {"1": "timeout"}, "reward": [None, None]},
        **{"start": [1000, 2000], "wait": [3, 3], "duration": [250, 250]},
    }


def test_long_outputs_leave_room_for_styles_and_scripts_in_250_kb(client: Client) -> None:
    episode = make_episode()
    for index in range(50):
        make_step(episode, "some words " * 1_000, index=index)
    assert len(seen(client, episode)) < 180_000


def test_ten_thousand_steps_cost_what_a_hundred_cost(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    small, big = with_steps(100), with_steps(10_000)
    for episode in (small, big):
        seen(client, episode)  # creates the operator, who has then seen the task
    for episode, step in ((small, 80), (big, 9_000)):
        # eight, and one for each part of the side column and the notices
        with django_assert_num_queries(16):
            page = seen(client, episode, f"?step={step}")
        assert len(page) < 200_000 and page.count('class="step"') <= WINDOW_STEPS
    accepted = {"Accept-Encoding": "gzip"}  # as browsers do
    places = ("rail.json?first=0", "rail.json?first=5000", "steps/?first=9960", "steps/?first=9980")
    parts = [
        client.get(f"/episodes/{big.pk}/{place}", headers=accepted).content for place in places
    ]
    assert sum(map(len, parts)) < 30_000


def test_rewards_whose_sum_runs_over_are_shown(client: Client) -> None:
    episode = with_steps(50)
    episode.steps.update(reward=1e308)
    assert "Σ +1.8\u00d710³⁰⁸" in seen(client, episode, "?step=45")


def test_hugest_and_deepest_texts_are_bounded(client: Client) -> None:
    episode = make_episode()
    make_step(
        episode, "x" * 300_000, input=json.dumps({"text": "y" * 300_000}), error="z" * 300_000
    )
    make_step(episode, "", input="[" * 50_000 + "]" * 50_000)
    page = seen(client, episode)
    assert len(page) < 150_000 and "296,000 more characters" in page


def test_what_is_too_large_for_the_window_is_a_click_away(client: Client) -> None:
    episode = make_episode()
    make_step(episode, output="", output_blob=make_blob(output_of("word " * 600_000)))
    assert "Large step. <a" in seen(client, episode)
    assert "Large step. <a" not in seen(client, episode, "steps/0/")


# --- one step, one text ---------------------------------------------------------------------------


def test_a_step_has_a_page_of_its_own_and_its_card_alone(client: Client) -> None:
    episode = with_steps(3)
    assert "<html" in seen(client, episode, "steps/1/") and "said 1" in seen(
        client, episode, "steps/1/"
    )
    card = seen(client, episode, "steps/1/", **HTMX)
    assert "<html" not in card and "Σ +1.00" in card


@each(
    ("kind", "html"),
    [
        ("markdown", "<strong>b</strong>"),
        ("text", "**b** &lt;i&gt;\n"),
        ("raw", "**b** &lt;i&gt;\\n"),
        ("code", "**b**"),
    ],
)
def test_a_text_can_be_read_as_another_kind(client: Client, kind: str, html: str) -> None:
    episode = make_episode()
    make_step(episode, "**b** <i>\n")
    assert html in seen(client, episode, f"steps/0/?part=output-0&as={kind}", **HTMX)
    assert "<html" in seen(client, episode, f"steps/0/?part=output-0&as={kind}")


def test_the_prompt_can_be_read_as_another_kind(client: Client) -> None:
    episode = make_episode(prompt=make_blob(json.dumps([{"type": "text", "text": "**b**"}])))
    assert "<strong>b</strong>" in seen(
        client, episode, "prompt/?part=prompt-0&as=markdown", **HTMX
    )


@pytest.mark.parametrize(
    ("query", "status", "expected"),
    [
        ("part=output-0&as=pdf", 400, "text, markdown, code, ansi, latex, raw"),
        ("part=output-9&as=text", 404, "output-9"),
        ("part=&as=text", 404, "input-0, output-0"),
    ],
)
def test_an_unknown_text_or_kind_is_refused_by_name(
    client: Client, query: str, status: int, expected: str
) -> None:
    assert expected in seen(client, with_steps(1), f"steps/0/?{query}", status)


def test_a_missing_step_is_not_found(client: Client) -> None:
    episode = with_steps(1)
    for rest in ("steps/7/", "steps/7.json"):
        assert "no step" in seen(client, episode, rest, 404)
    for rest in (f"steps/{10**30}/", f"steps/{10**30}.json"):  # no address: beyond 64 bits
        assert "There is no such page" in seen(client, episode, rest, 404)


def test_the_json_of_a_step_is_exact(client: Client) -> None:
    episode = make_episode()
    make_step(episode, input='{"b": 1e20, "a": -0.0}')
    assert '"input": {"b": 1e20, "a": -0.0}' in seen(client, episode, "steps/0.json")


def test_prompt_tools_and_task_are_returned_as_recorded(client: Client) -> None:
    episode = make_episode(task=make_task({"x": 1}), prompt=make_blob("[1e20]"))
    assert seen(client, episode, "prompt.json") == "[1e20]"
    assert (seen(client, episode, "task.json"), seen(client, episode, "tools.json")) == (
        '{"x": 1}',
        "null",
    )
    assert "prompt, tools and task" in seen(client, episode, "secrets.json", 404)


# --- images ---------------------------------------------------------------------------------------


def image_step(episode: Episode, media: str = "image/png", data: str = PIXEL) -> None:
    block = {"type": "image", "data": data, "mimeType": media, "detail": None}
    make_step(
        episode,
        output=json.dumps({"blocks": [block], "metadata": None, "reward": None, "finished": False}),
    )


def test_an_image_is_loaded_by_its_place(client: Client) -> None:
    episode = make_episode()
    image_step(episode)
    assert f'src="/episodes/{episode.pk}/steps/0/images/0"' in seen(client, episode)
    response = client.get(f"/episodes/{episode.pk}/steps/0/images/0")
    assert response["Content-Type"] == "image/png" and response.content.startswith(b"\x89PNG")


def test_an_image_of_the_prompt_is_loaded_by_its_place(client: Client) -> None:
    block = {"type": "image", "data": PIXEL, "mimeType": "image/png", "detail": None}
    episode = make_episode(prompt=make_blob(json.dumps([block])))
    assert f'src="/episodes/{episode.pk}/prompt/images/0"' in seen(client, episode)
    assert client.get(f"/episodes/{episode.pk}/prompt/images/0")["Content-Type"] == "image/png"


@pytest.mark.parametrize(
    ("media", "data", "expected"),
    [
        (
            "image/svg+xml",
            "PHN2Zz4=",
            "Not shown as an image: the type &#x27;image/svg+xml&#x27; is not allowed",
        ),
        (
            "text/html",
            "PGI+",
            "Not shown as an image: the type &#x27;text/html&#x27; is not allowed",
        ),
        ("image/png", "A", "Not shown as an image: the data is not base64."),
        ("image/png", "", "Not shown as an image: the data is empty."),
        (
            "image/jpeg",
            PIXEL,
            "Not shown as an image: the data is image/png, but the type is image/jpeg.",
        ),
    ],
)
def test_other_data_is_never_shown_as_an_image(
    client: Client, media: str, data: str, expected: str
) -> None:
    episode = make_episode()
    image_step(episode, media, data)
    page = seen(client, episode)
    assert expected in page and "/images/0" not in page and "data:" not in page
    assert client.get(f"/episodes/{episode.pk}/steps/0/images/0").status_code == 404


# --- search inside --------------------------------------------------------------------------------


def found(client: Client, episode: Episode, text: str) -> dict[str, Any]:
    response = client.get(f"/episodes/{episode.pk}/find.json", {"text": text})
    assert response.status_code == 200
    return dict(response.json())


@each("text", ["NEEDLE", "né 漢", 'say "it"', "100%_x", "boom", "dig_deep", "in a blob"])
def test_it_finds_a_text_in_every_part_of_a_step(client: Client, text: str) -> None:
    episode = make_episode()
    make_step(episode, "nothing")
    everything = json.dumps({"x": 'needle né 漢 say "it" 100%_x'})
    blob = make_blob(output_of("in a Blob " * 2_000))
    make_step(episode, tool="dig_deep", input=everything, error="Boom", output="", output_blob=blob)
    assert found(client, episode, text) == {"steps": [1], "is_all": True}


@each(
    "text",
    ["\u00e4pfel", "APFEL", "Gro\u00dfe", "GROSSE \u00c4", "\u041c\u041e\u0421\u041a", "NAME"],
)
@each("is_escaped", [True, False])
def test_case_and_accents_do_not_matter_in_any_script(
    client: Client, text: str, is_escaped: bool
) -> None:
    episode = make_episode()
    make_step(episode, "nothing")
    words = {"Name": "gro\u00dfe \u00c4pfel, \u043c\u043e\u0441\u043a\u0432\u0430"}
    make_step(episode, input=json.dumps(words, ensure_ascii=is_escaped))
    blob = make_blob(json.dumps({"Name": [words["Name"]] * 900}, ensure_ascii=is_escaped))
    make_step(episode, output="", output_blob=blob)
    make_step(episode, error=f"name {words['Name']}")
    assert found(client, episode, text) == {"steps": [1, 2, 3], "is_all": True}


@each("text", ["", "100%x", "a_c", "'; DROP TABLE"])
def test_it_finds_nothing_where_nothing_is(client: Client, text: str) -> None:
    episode = make_episode()
    make_step(episode, "abc 100 x")
    assert found(client, episode, text)["steps"] == []


# --- hostile texts --------------------------------------------------------------------------------


@each("field", ["tool", "error", "reason", "task_id"])
def test_hostile_facts_of_a_step_are_text(client: Client, field: str) -> None:
    episode = make_episode()
    make_step(episode, **{field: "<script>x\u202e", "status": "failed"})
    page = seen(client, episode)
    assert "<script>x" not in page and "&lt;script&gt;x" in page


@each("field", ["model", "user_agent", "session_id", "labels", "key_label"])
def test_hostile_facts_of_an_episode_are_text(client: Client, field: str) -> None:
    value = json.dumps({"<script>x": "<script>x"}) if field == "labels" else "<script>x"
    page = seen(client, make_episode(**{field: value}))
    assert "<script>x" not in page and "&lt;script&gt;x" in page


def test_controls_and_broken_texts_are_made_visible(client: Client) -> None:
    episode = make_episode()
    make_step(
        episode,
        "invoice\u202egnp.exe \ufffd \u2066 \ud800".encode("utf-8", "surrogatepass").decode(
            "utf-8", "replace"
        ),
    )
    page = seen(client, episode)
    assert "invoice⟦RLO⟧gnp.exe" in page and "⟦LRI⟧" in page and "\u202e" not in page


def test_metadata_that_is_no_object_of_numbers_does_no_harm(client: Client) -> None:
    episode = make_episode()
    for metadata in (
        [1],
        {"rewards": [1]},
        {"components": {"x": float("nan"), "y": sys.float_info.max}},
        {"rewards": None},
    ):
        make_step(episode, output=output_of("x", metadata=metadata))
    make_step(episode, output='{"blocks": 5, "metadata": "x"}')
    make_step(episode, output="no json")
    assert "no json" in seen(client, episode)


# --- what people made of it -----------------------------------------------------------------------


def test_an_episode_that_continues_another_says_so_and_is_found_from_there(client: Client) -> None:
    parent = make_episode()
    make_step(parent)
    child = make_episode(task=parent.task, player="human")
    Play.objects.create(episode=child, parent=parent, parent_step=0, differs_at=0)
    page = seen(client, child)
    assert (
        f'continues <a href="/episodes/{parent.pk}/#step-0">episode {parent.pk} from step 0</a>'
        in page
    )
    assert "continues" not in client.get(f"/episodes/{parent.pk}/headline/").content.decode()
    assert f"/compare/?episodes={parent.pk},{child.pk}" in page
    assert f'Continued in <a href="/episodes/{child.pk}/">episode {child.pk}</a>' in seen(
        client, parent
    )


def test_one_can_play_on_from_each_step_but_the_last_of_an_episode_that_finished(
    client: Client,
) -> None:
    episode = make_episode()
    make_step(episode)
    make_step(episode, finished=True)
    for page in (seen(client, episode), seen(client, episode, "steps/?first=0")):
        assert (
            page.count(f'href="/play/continue/{episode.pk}/?step=0"') == 1
            and f"/play/continue/{episode.pk}/?step=1" not in page
        )


@pytest.mark.parametrize(
    "values", [{"status": "running", "cause": ""}, {"environment__is_hosted": False}]
)
def test_one_cannot_play_on_from_what_runs_or_cannot_be_played(
    client: Client, values: dict[str, Any]
) -> None:
    environment = make_environment("gone", is_hosted=values.pop("environment__is_hosted", True))
    episode = make_episode(environment=environment, **values)
    make_step(episode)
    assert "/play/continue/" not in seen(client, episode, "steps/?first=0")


def test_a_repeated_call_with_the_same_result_is_folded(client: Client) -> None:
    episode = make_episode()
    for text in ("open", "failed", "failed", "failed", "passed"):
        make_step(episode, text)
    make_step(episode, "passed", input='{"answer": 43}')
    page = seen(client, episode)
    assert page.count('<details class="fold repeats"') == 2
    assert page.count("Same call and result as step 1<") == 2
    assert "said-text" in page.partition('id="step-3"')[2].partition('id="step-4"')[0]
