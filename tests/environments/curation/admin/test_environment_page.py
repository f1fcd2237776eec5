"""The page of one environment and the admin's first page, as a person sees them."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from environments.models import Environment, Split, SplitEntry, Task, TaskStatistics
from environments.tasks.flags import flag
from tests.environments.curation.admin.people import person_who_may
from tests.people import member
from tests.rows import each
from tests.stored import NOW, make_environment, make_split, make_task

pytestmark = pytest.mark.django_db


def page_of(client: Client, environment: Environment) -> str:
    return client.get(
        reverse("admin:environments_environment_change", args=[environment.pk])
    ).content.decode()


def do(client: Client, environment: Environment, action: str, **values: Any) -> HttpResponse:
    url = reverse("admin:environments_environment_do", args=[environment.pk])
    return client.post(url, {"action": action, **values}, follow=True)


def scored(client: Client, environment: Environment, **changes: Any) -> HttpResponse:
    values = {"default_return": "sum", "reward_low": 0, "reward_high": 1, "success_threshold": 0.9}
    return do(client, environment, "score", **(values | changes))


def test_the_card_is_shown_instead_of_the_docstring(client: Client) -> None:
    page = page_of(
        client, make_environment(description="Said in code.", card="# Shop\n\nSells *apples*.")
    )
    assert "<h3>Shop</h3>" in page and "<em>apples</em>" in page and "Said in code." not in page


def test_without_a_card_the_docstring_is_shown(client: Client) -> None:
    assert "Actions: &lt;submit&gt;." in page_of(
        client, make_environment(description="Actions: <submit>.")
    )


def test_it_lists_splits_with_counts_and_marks(client: Client) -> None:
    split = make_split(*(make_task() for _ in range(3)), name="hard")
    Split.objects.update(is_curated=True, frozen=NOW, frozen_hash="abcdef0123456789")
    Split.objects.create(environment=split.environment, name="former", type="test", is_served=False)
    Split.objects.create(
        environment=split.environment, name="deleted", type="test", is_served=False, is_curated=True
    )
    page = page_of(client, split.environment)
    assert "deleted" not in page
    for shown in (
        ">curated<",
        "frozen ❄ <code>abcdef01</code>",
        ">not served<",
        f"split={split.pk}",
        ">3</a>",
    ):
        assert shown in page


def test_it_shows_the_form_of_tasks(client: Client) -> None:
    schema = (
        '{"required": ["question"], "properties": {"question": {"type": "string", "description": '
        '"What to ask"}}}'
    )
    page = page_of(client, make_environment(task_schema=schema))
    assert "<code>question</code>" in page and "What to ask" in page


def test_it_says_why_it_cannot_be_played(client: Client) -> None:
    sentence = "bubblewrap is missing; install the package bubblewrap"
    environment = make_environment(unavailable=sentence, is_hosted=False)
    assert sentence in page_of(client, environment)
    assert "unavailable" in client.get("/admin/").content.decode()


def test_it_counts_what_was_played_and_what_needs_attention(client: Client) -> None:
    environment, played = make_environment(), make_task()
    figures = {"attempts": 8, "scored": 8, "successes": 2, "return_total": 2.0, "rate": 0.25}
    TaskStatistics.objects.create(task=played, environment=environment, by="all", **figures)
    make_split(played, gone := make_task())
    Task.objects.filter(pk=gone.pk).update(state="quarantined", dropped=timezone.now())
    page = page_of(client, environment)
    for shown in ("2 of 8 attempts", "bucket=learnable", "state=quarantined", "source=dropped"):
        assert shown in page


def test_returns_can_be_computed_differently_and_as_declared_again(client: Client) -> None:
    environment = make_environment()
    page = scored(
        client, environment, default_return="max", reward_low=-1, reward_high=2.5
    ).content.decode()
    environment.refresh_from_db()
    assert (environment.default_return, environment.reward_low, environment.reward_high) == (
        "max",
        -1.0,
        2.5,
    )
    assert "The class declares: sum, 0.0 to 1.0" in page
    do(client, environment, "declared")
    environment.refresh_from_db()
    assert (environment.default_return, environment.reward_low, environment.reward_high) == (
        "sum",
        0.0,
        1.0,
    )


@each(
    ("changes", "message"),
    [
        ({"reward_low": 2}, "1 is not above the lowest return, 2"),
        ({"reward_high": "inf"}, "Enter a number."),
        ({"success_threshold": "much"}, "Enter a number."),
        ({"default_return": "median"}, "Select a valid choice. median is not one"),
    ],
)
def test_an_invalid_value_is_reported_at_its_field(
    client: Client, changes: dict[str, Any], message: str
) -> None:
    environment = make_environment()
    answer = scored(client, environment, **changes)
    assert answer.status_code == 400 and message in answer.content.decode()
    assert Environment.objects.get().reward_high == 1.0


def test_it_can_be_disabled_and_enabled(client: Client) -> None:
    environment = make_environment()
    assert "<b>Disabled.</b>" in do(client, environment, "disable").content.decode()
    assert "<b>Disabled.</b>" not in do(client, environment, "enable").content.decode()
    assert Environment.objects.get().is_enabled


def test_blind_play_can_be_switched_on_and_off(client: Client) -> None:
    environment = make_environment()
    assert "hidden until the episode ends" in do(client, environment, "blind").content.decode()
    assert Environment.objects.get().is_blind
    assert "see each reward right away" in do(client, environment, "seeing").content.decode()


def test_with_only_view_permission_no_changes_are_offered() -> None:
    environment, looking = make_environment(), person_who_may("view_environment")
    assert ">Disable</button>" not in page_of(looking, environment)
    assert do(looking, environment, "disable").status_code == 403


def test_it_runs_as_few_queries_for_many_splits_as_for_few(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client.get("/admin/")  # makes the operator
    for n in range(10):
        split = make_split(make_task(), make_task(), name=f"s{n}")
    # operator, row, splits, the size, 25 for seven counts, the attempted tasks, secrets, members
    # and all whom the form offers
    with django_assert_num_queries(39):
        page_of(client, split.environment)


def test_the_first_page_does_not_say_that_there_are_no_environments_to_who_may_not_see_them() -> (
    None
):
    client = Client()
    client.force_login(member(is_staff=True))
    page = client.get("/admin/").content.decode()
    assert "You don't have permission to view environments." in page
    assert "hosted any environments" not in page


def test_the_first_page_leads_to_tasks_that_need_attention(client: Client) -> None:
    make_environment("quiet", position=2)
    make_task()
    Task.objects.update(state="quarantined", reason="wrong")
    page = client.get("/admin/").content.decode()
    assert "1 quarantined" in page and ">quiet</strong>" in page


def test_counts_are_exact_or_say_that_they_are_not(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("environments.curation.admin.environment_counts.MAX_COUNTED", 2)
    monkeypatch.setattr("environments.curation.admin.environment_counts.MAX_TASKS", 2)
    few, many = make_environment("few"), make_environment("many")
    make_split(*(make_task(environment=one) for one in (few, few, many)))
    Task.objects.update(state="quarantined")
    first = client.get("/admin/").content.decode()
    assert "⊘ 1 quarantined" not in first and first.count("⊘ at least 1 quarantined") == 2
    make_task(environment=many)
    make_task(environment=many)
    Task.objects.update(state="quarantined")
    assert "⊘ over 2 quarantined" in client.get("/admin/").content.decode()
    assert ">over 2</a>" in page_of(client, many) and ">2</a>" in page_of(client, few)


def test_counts_are_exact_however_slow_the_machine_is(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = count()
    monkeypatch.setattr("environments.curation.index_walk.clock", lambda: 3600.0 * next(hours))
    environment, other = make_environment(), make_environment("other")
    for one in (environment, other):
        split = make_split(make_task(environment=one), environment=one)
        rows = [
            Task(environment=one, content_hash=str(n), spec=f'{{"n": {n}}}') for n in range(1_289)
        ]
        tasks = Task.objects.bulk_create(rows)
        places = [
            SplitEntry(split=split, task=task, position=n + 1) for n, task in enumerate(tasks)
        ]
        SplitEntry.objects.bulk_create(places)
    assert 'bucket=unseen">1,290</a>' in page_of(client, environment)
    Task.objects.filter(environment=environment).update(state="quarantined")
    assert 'state=quarantined">1,290</a>' in page_of(client, environment)


def test_the_first_page_and_the_environments_lead_to_tasks_that_a_person_flagged(
    client: Client,
) -> None:
    task = make_task(environment=make_environment("quiet", position=2))
    for author in ("ada", "bob"):
        flag(task, author, "The answer is wrong.")
    link = f"?environment={task.environment_id}&amp;flags=open&amp;state=any"
    assert f'{link}">⚑ 1 flagged as broken' in client.get("/admin/").content.decode()
    assert f'{link}">1</a>' in page_of(client, task.environment)


def test_the_first_page_runs_few_queries_however_many_tasks_there_are(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client.get("/admin/")  # makes the operator
    for n in range(5):
        make_task(environment=make_environment(f"e{n}"))
    Task.objects.update(state="quarantined")
    with django_assert_num_queries(7) as asked:
        client.get("/admin/")
    assert not [query for query in asked.captured_queries if "COUNT(" in query["sql"]]
