"""The Episodes page: its table, filters, refusals, saved views and preview."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from environments.models import SplitEntry
from episodes.models import Episode, Run, SavedView
from tests.episodes.people.studies.taking_part import study_of
from tests.episodes.suites.published import split_of
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


def page(client: Client, address: str = "/episodes/") -> str:
    response = client.get(address)
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def listed(text: str) -> list[int]:
    return [int(number) for number in re.findall(r'<tr data-episode="(\d+)"', text)]


def test_it_lists_every_episode_the_newest_first(client: Client) -> None:
    numbers = [make_episode().pk for _ in range(3)]
    assert listed(page(client)) == numbers[::-1]


def test_its_heading_says_that_the_newest_are_those_with_the_last_numbers(client: Client) -> None:
    make_episode()
    text = " ".join(re.sub(r"<[^>]*>", " ", page(client)).split())
    assert " # \u2193 " in text and "Started \u2193" not in text
    text = " ".join(re.sub(r"<[^>]*>", " ", page(client, "/episodes/?sort=steps")).split())
    assert " # \u2193 " not in text and "Steps \u2191" in text


def test_a_row_tells_what_was_played_by_whom_and_how_it_went(client: Client) -> None:
    task = make_task({"question": "Is <b>this</b> safe?"})
    make_episode(
        task=task,
        model="qwen",
        run=make_run(),
        run_step=12,
        return_sum=0.75,
        steps_count=3,
        duration_seconds=4.2,
    )
    text = page(client)
    for words in (
        "Is &lt;b&gt;this&lt;/b&gt; safe?",
        "qwen",
        "grpo-3",
        "step 12",
        "+0.75",
        ">3<",
        "4.2 s",
        "finished",
    ):
        assert words in text, words


def test_a_person_is_named_and_leads_to_what_they_played(client: Client) -> None:
    numbers = [
        make_episode(player="human", key_label=name).pk
        for name in ("@ada", "@local operator", "@ada")
    ]
    text = page(client)
    assert "@ada</span>" in text and 'href="/episodes/?who=%40local%20operator"' in text
    assert listed(page(client, "/episodes/?who=%40ada")) == [numbers[2], numbers[0]]


def test_filters_and_the_order_are_in_the_address(client: Client) -> None:
    low, high = (make_episode(model="m", return_sum=value).pk for value in (0.25, 0.5))
    make_episode(return_sum=0.4)
    text = page(client, "/episodes/?model=m&sort=return")
    assert listed(text) == [low, high]
    assert '<option value="m" selected>m</option>' in text and 'aria-sort="ascending"' in text


def test_a_filter_by_a_run_leads_to_the_others_of_its_name(client: Client) -> None:
    first, second = (Run.objects.begin("tiny", created=NOW)[0] for _ in range(2))
    for run in (first, second):
        make_episode(run=run, model="m")
    text = page(client, "/episodes/?run=tiny&model=m")
    assert 'Also named tiny: <a href="?run=tiny+%282%29&amp;model=m">tiny (2)</a>' in text
    assert '<a href="?run=tiny">tiny</a>' in page(client, "/episodes/?run=tiny+(2)")
    assert "Also named" not in page(client, "/episodes/?model=m")


def test_a_study_can_be_chosen(client: Client) -> None:
    split = split_of("math", 2)
    assert "f-study" not in page(client)
    for name in ("winter", "autumn"):
        study_of(split, name)
    fields = (
        page(client, "/episodes/?player=agent").partition('id="f-study"')[2].partition("</div>")[0]
    )
    assert re.findall("<option[^>]*>([^<]+)", fields) == ["any", "autumn", "winter"]
    assert fields.startswith(' name="study" data-auto data-clears="player">')
    assert '<option value="winter" selected>winter</option>' in page(
        client, "/episodes/?study=winter"
    )


def test_a_chip_takes_its_filter_away_and_keeps_the_order(client: Client) -> None:
    make_episode(model="m")
    assert 'href="?player=agent&amp;sort=steps" aria-label="Remove filter model m"' in page(
        client, "/episodes/?model=m&player=agent&sort=steps"
    )


def test_pages_lead_on_and_back(client: Client) -> None:
    numbers = [make_episode().pk for _ in range(60)][::-1]
    first = page(client)
    second = page(client, _link(first, "next"))
    assert (listed(first), listed(second)) == (numbers[:50], numbers[50:])
    assert "<b>50</b> of 60" in first
    assert listed(page(client, _link(second, "prev"))) == numbers[:50]


def _link(text: str, rel: str) -> str:
    found = re.search(f'rel="{rel}" href="([^"]+)"', text)
    assert found
    return found[1].replace("&amp;", "&")


def test_htmx_gets_the_table_alone(client: Client) -> None:
    make_episode()
    text = client.get("/episodes/", headers={"HX-Request": "true"}).content.decode()
    assert text.strip().startswith('<section class="results"') and "<html" not in text


def test_only_the_first_page_is_fetched_again(client: Client) -> None:
    for _ in range(51):
        make_episode()
    first = page(client)
    assert 'data-refetch="/episodes/?"' in first
    assert "data-refetch=" not in page(client, _link(first, "next"))


@each(
    ("query", "sentence"),
    [
        ("ending=won", "allowed are running, finished"),
        ("colour=red", "no filter has that name"),
        ("after=zzz", "leave it out for the first page"),
        ("sort=luck", "allowed are time, -time"),
        ("split=train", "name it too, as environment="),
    ],
)
def test_what_cannot_be_meant_is_answered_400_with_what_can(
    client: Client, query: str, sentence: str
) -> None:
    response = client.get(f"/episodes/?{query}")
    assert response.status_code == 400
    assert sentence in response.content.decode()


def test_an_unknown_name_is_reported_with_the_nearest(client: Client) -> None:
    make_environment("math")
    answer = client.get("/episodes/?environment=maths")
    assert answer.status_code == 400
    assert (
        "No environment is named &#x27;maths&#x27;. Did you mean &#x27;math&#x27;?"
        in answer.content.decode()
    )


def test_an_empty_record_says_what_would_be_here_and_how(client: Client) -> None:
    assert "Load demo data" in page(client)


def test_filters_that_nothing_meets_say_so(client: Client) -> None:
    make_episode()
    assert "episodes match these filters." in page(client, "/episodes/?player=human")


def test_kinds_of_players_have_their_plural_names(client: Client) -> None:
    text = page(client, "/episodes/?player=human")
    assert (
        '<option value="human" selected>people</option>' in text and "<b>player</b> people" in text
    )


def test_the_return_can_be_switched(client: Client) -> None:
    make_episode(return_sum=3.0, return_last=0.5)
    text = page(client, "/episodes/?return=last")
    assert "+0.50" in text and "+3.00" not in text and 'data-definition="last"' in text


def test_the_number_of_queries_does_not_grow_with_the_episodes(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    split = make_split(make_task(), name="train")
    for _ in range(60):
        make_episode(run=make_run(), model="m", split=split)
    client.get("/episodes/")
    with django_assert_num_queries(BARE):
        client.get("/episodes/")
    with django_assert_num_queries(FILTERED):
        client.get("/episodes/?environment=math&split=train&sort=-return")


def test_a_task_is_named_by_its_place_where_the_client_sent_its_content_alone(
    client: Client,
) -> None:
    first, second = make_task(), make_task()
    make_split(first, second, name="train")
    episode = make_episode(task=second, run=make_run())
    solved = make_episode(task=second, run=make_run(), return_sum=1.0)
    paths = [
        "/",
        "/episodes/",
        f"/runs/{make_run().pk}/",
        "/compare/",
        f"/compare/?episodes={episode.pk},{solved.pk}",
    ]
    paths += [f"/episodes/{episode.pk}/{part}" for part in ("", "facts/", "preview/")]
    paths += ["/admin/episodes/episode/", f"/admin/episodes/episode/{episode.pk}/change/"]
    paths += [f"/admin/episodes/run/{make_run().pk}/change/"]
    for path in paths:
        assert "train #1" in client.get(path).content.decode(), path


def test_a_task_keeps_its_name_when_agents_get_it_under_a_lower_index(client: Client) -> None:
    first, second = make_task(), make_task()
    split = make_split(first, second)
    SplitEntry.objects.filter(split=split, task=first).update(is_hidden=True)
    episode = make_episode(task=second, split=split, task_index=0, run=make_run())
    for path in ("/episodes/", f"/episodes/{episode.pk}/", f"/runs/{make_run().pk}/"):
        assert ">train #1<" in client.get(path).content.decode(), path


def test_a_running_episode_shows_its_figures_so_far(client: Client) -> None:
    running = make_episode(status="running", cause="", ended=None)
    for reward in (0.25, None, 0.5):
        make_step(running, reward=reward)
    for query, expected in (("", "+0.75"), ("?return=last", "+0.50"), ("?return=mean", "+0.38")):
        text = page(client, f"/episodes/{query}")
        assert (
            expected in text
            and '<td data-column="steps" class="right"><span class="number">3' in text
        )
    assert '<td data-column="duration" class="right number">\N{EN DASH}' in text


def test_it_is_fetched_again_with_each_step_only_while_one_of_it_runs(client: Client) -> None:
    make_episode()
    assert 'data-refetch-on="started ended"' in page(client)
    make_episode(status="running", cause="", ended=None)
    assert 'data-refetch-on="started ended steps"' in page(client)


def test_what_runs_takes_three_queries_more(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(60):
        make_episode()
    for _ in range(4):
        make_step(make_episode(status="running", cause="", ended=None), reward=0.5)
    client.get("/episodes/")
    with django_assert_num_queries(BARE + 3):
        client.get("/episodes/")


BARE = 10
"""Number of queries without a filter: account, ids, rows, places of tasks, count, environments,
runs, models, studies and saved views.
"""
FILTERED = 14
"""Number of queries with filters: also environment and split, the bound, and the splits to
offer."""


# --- saved views ----------------------------------------------------------------------------------


def test_a_view_is_saved_under_a_name_and_listed(client: Client) -> None:
    response = client.post(
        "/episodes/views/", {"name": "bad ones", "query": "ending=env_error&sort=-steps"}
    )
    assert response["Location"] == "/episodes/?ending=env_error&sort=-steps"
    assert (
        '<a href="/episodes/?ending=env_error&amp;sort=-steps" title="by local operator">bad ones</a>'
        in page(client)
    )


def test_a_view_replaces_the_one_of_its_name(client: Client) -> None:
    for query in ("model=a", "model=b"):
        client.post("/episodes/views/", {"name": "mine", "query": query})
    assert list(SavedView.objects.values_list("name", "query")) == [("mine", "model=b")]


@each(("name", "query"), [("", ""), ("x" * 101, ""), ("x", "colour=red"), ("x", "sort=luck")])
def test_a_view_that_could_not_be_opened_is_not_saved(
    client: Client, name: str, query: str
) -> None:
    assert client.post("/episodes/views/", {"name": name, "query": query}).status_code == 400
    assert not SavedView.objects.exists()


def test_a_view_can_be_deleted(client: Client) -> None:
    view = SavedView.objects.create(name="old", query="", author="me")
    response = client.post(f"/episodes/views/{view.pk}/delete/", {"query": "model=m\r\nX: y"})
    assert response["Location"] == "/episodes/?model=m%0D%0AX%3A+y"
    assert not SavedView.objects.exists()


# --- preview --------------------------------------------------------------------------------------


def test_a_task_is_named_before_its_words(client: Client) -> None:
    task = make_task({"question": "Investigate the outage."})
    make_episode(task=task, split=make_split(task), task_index=0)
    assert "train #0</span> Investigate the outage." in page(client, "/episodes/")


def test_the_preview_shows_the_first_and_the_last_steps(client: Client) -> None:
    episode = make_episode(prompt=make_blob('[{"type": "text", "text": "Add them."}]'))
    for number in range(9):
        make_step(episode, f"answer-{number}", reward=0.5)
    text = page(client, f"/episodes/{episode.pk}/preview/")
    assert re.findall(r"answer-(\d)", text) == list("012678")
    assert "Add them." in text and "… 3 steps not shown …" in text and "+0.50" in text


def test_the_preview_renders_the_prompt_as_the_replay_does(client: Client) -> None:
    episode = make_episode(
        prompt=make_blob('[{"type": "text", "text": "# Add\\n\\nall **numbers**."}]')
    )
    assert "<strong>numbers</strong>" in page(client, f"/episodes/{episode.pk}/preview/")


def test_the_preview_escapes_what_was_said(client: Client) -> None:
    episode = make_episode()
    make_step(episode, "<script>alert(1)</script> \u202eevil")
    text = page(client, f"/episodes/{episode.pk}/preview/")
    assert "&lt;script&gt;" in text and "⟦RLO⟧evil" in text and "<script>" not in text


def test_the_preview_of_an_episode_without_calls_says_so(client: Client) -> None:
    running = make_episode(status="running", cause="")
    assert "No tool calls yet." in page(client, f"/episodes/{running.pk}/preview/")


def test_the_preview_of_a_deleted_episode_is_not_found(client: Client) -> None:
    make_episode()
    Episode.objects.all().delete()
    assert client.get("/episodes/1/preview/").status_code == 404


def test_strangers_see_no_episode(client: Client, settings: object) -> None:
    settings.ORSWEB_API_KEYS = {"secret": "someone"}  # type: ignore[attr-defined]
    assert client.get("/episodes/").status_code == 302


def test_labels_are_found_and_are_columns(client: Client) -> None:
    three, four, _ = (make_episode(labels=f'{{"seed":"{seed}","arm":"b"}}') for seed in (3, 4, 5))
    other = make_episode(labels='{"seed":"3","arm":"xseed"}')
    make_episode(labels="")
    text = page(client, "/episodes/?label=seed=3,4;arm=b&columns=seed,missing&sort=return")
    assert listed(text) == [four.pk, three.pk][::-1]
    assert '<th class="label">seed</th><th class="label">missing</th>' in text
    assert re.findall(r'<td class="label">(.*?)</td>', text)[:2] == [
        "3",
        '<span class="none">\u2013</span>',
    ]
    assert "sort=return&amp;columns=seed%2Cmissing" in text
    assert set(listed(page(client, "/episodes/?label=seed=3"))) == {three.pk, other.pk}


def test_so_many_labels_are_no_columns(client: Client) -> None:
    response = client.get(f"/episodes/?columns={','.join(map(str, range(9)))}")
    assert response.status_code == 400 and "at most 8 labels are shown" in response.content.decode()


def test_a_parameter_with_an_example_has_a_field_in_the_form(client: Client) -> None:
    text = page(client, "/episodes/?label=seed%3D3")
    assert '<label for="f-label">Label (seed=3,4;arm=b)</label>' in text
    assert '<input id="f-label" name="label" value="seed=3"' in text


def test_the_preview_renders_terminal_colours_as_the_replay_does(client: Client) -> None:
    episode = make_episode()
    make_step(episode, "\x1b[01;34mastropy\x1b[0m <b>")
    text = page(client, f"/episodes/{episode.pk}/preview/")
    assert '<span class="ansi-bold ansi-blue">astropy</span> &lt;b&gt;' in text


def test_the_attempts_of_a_group_stand_together_and_lead_to_it(client: Client) -> None:
    run, task, other = make_run("grpo"), make_task(), make_task()
    for of in (task, task, other):
        make_episode(run=run, run_step=3, task=of)
    make_episode(task=other)
    make_episode(task=other)
    page = client.get("/episodes/").content.decode()
    assert page.count('class="same-group"') == 1
    assert f'href="/tasks/{task.pk}/group/?run={run.pk}&amp;step=3"' in page
