"""The admin page that deletes episodes shows its plan first, and needs a permission."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from pytest_django import Settings

from episodes.models import Episode, Removal, Retention
from tests.episodes.ended import end_episode
from tests.rows import each
from tests.stored import make_environment, make_run

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/admin/episodes/episode/remove/"


def confirmed(client: Client, **values: str) -> str:
    """Delete what `values` choose, with the mark of the plan that the page shows; return the next
    page."""
    page = client.get(PAGE, values).content.decode()
    mark = re.search(r'name="confirm" value="([^"]+)"', page)
    assert mark, page
    return client.post(
        PAGE, {**values, "confirm": mark[1], "reason": "a test"}, follow=True
    ).content.decode()


def test_it_shows_what_would_go_and_removes_it_when_confirmed(client: Client) -> None:
    kept, gone = end_episode(environment=make_environment("code")), end_episode()
    page = client.get(PAGE, {"query": "environment=math"}).content.decode()
    assert "1 episode with 2 steps would be removed: math (1)." in page
    assert "1 episode deleted." in confirmed(client, query="environment=math")
    removal = Removal.objects.get()
    assert (Episode.objects.get(), removal.last_episode) == (kept, gone.pk)
    assert (removal.author, removal.reason, removal.query) == (
        "operator",
        "a test",
        "environment=math",
    )


def test_an_episode_has_a_link_to_its_deletion(client: Client) -> None:
    episode = end_episode()
    assert (
        f"{PAGE}?episode={episode.pk}"
        in client.get(f"/admin/episodes/episode/{episode.pk}/change/").content.decode()
    )
    confirmed(client, episode=str(episode.pk))
    assert not Episode.objects.exists()


def test_a_plan_that_no_longer_holds_is_shown_again(client: Client) -> None:
    end_episode()
    page = client.post(PAGE, {"query": "environment=math", "confirm": "9-1-9"})
    assert (page.status_code, Episode.objects.count()) == (200, 1)


TOO_WIDE = [
    "steps_from=0",
    "since=0001-01-01",
    "environment=math&run=",
    "environment=math&run=+",
    "until=2999-01-01",
    "environment=math&until=9999-12-31",
]


@each("query", ["environment=maths&x=1", "run=+", "run=", "return=sum", "run=a&run=b", *TOO_WIDE])
def test_a_filter_that_is_not_understood_or_has_no_condition_is_explained(
    client: Client, query: str
) -> None:
    end_episode()
    assert client.get(PAGE, {"query": query}).status_code == 400


def test_the_end_of_today_leaves_nothing_out(client: Client) -> None:
    end_episode()
    day = (datetime.now(UTC) + timedelta(minutes=10)).date()
    assert client.get(PAGE, {"query": f"environment=math&until={day}"}).status_code == 400


def test_only_those_with_the_permission_may_delete(client: Client, settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {"key": "x" * 40}
    user = User.objects.create_user("anna", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_episode"))
    episode = end_episode()
    client.force_login(user)
    assert client.get(PAGE).status_code == 403
    assert PAGE not in client.get(f"/admin/episodes/episode/{episode.pk}/change/").content.decode()


def test_retention_periods_are_edited_and_removals_listed(client: Client) -> None:
    run = make_run()
    client.post("/admin/episodes/retention/add/", {"run": run.name, "days": 30})
    assert (Retention.objects.get().run, Retention.objects.get().days) == (run, 30)
    assert (
        f'value="{run.name}"'
        in client.get(f"/admin/episodes/retention/{Retention.objects.get().pk}/change/").text
    )
    for days in ("0", "-1", "100001", "9" * 18):
        answer = client.post(
            "/admin/episodes/retention/add/", {"run": make_run("other").name, "days": days}
        )
        assert (answer.status_code, Retention.objects.count()) == (
            200,
            1,
        ) and "Ensure this value is" in answer.text
    refused = client.post("/admin/episodes/retention/add/", {"run": "nameless", "days": 30}).text
    assert "There is no run of this name." in refused and 'value="nameless"' in refused
    end_episode()
    confirmed(client, query="environment=math")
    assert "environment=math" in client.get("/admin/episodes/removal/").content.decode()
