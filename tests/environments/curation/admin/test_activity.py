"""The activity: every action is listed, is linked from what it changed, and can be undone by those
who may do it."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from environments.curation.actions.quarantine import Quarantine, Release
from environments.curation.environment_settings import SetEnabled
from environments.models import CurationAction, Environment, Task
from tests.environments.curation.tasks import make_tasks, served, split_of
from tests.filters import select
from tests.stored import make_environment

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/admin/environments/curationaction/"


def quarantined() -> tuple[CurationAction, list[int]]:
    ids = make_tasks(3)
    split_of(*ids)
    Quarantine(select(), "wrong").apply("ada")
    return CurationAction.objects.get(), ids


def test_it_lists_actions_and_finds_those_of_an_environment(client: Client) -> None:
    quarantined()
    SetEnabled(make_environment("other").pk, False).apply("bob")
    page = client.get(LIST).content.decode()
    assert "Quarantined 3 tasks." in page and "&#x27;other&#x27; is disabled." in page
    of_other = client.get(LIST, {"environment": make_environment("other").pk}).content.decode()
    assert "Quarantined 3 tasks." not in of_other and "is disabled" in of_other


def test_an_action_is_undone_after_a_preview_and_says_what_was_left_alone(client: Client) -> None:
    action, ids = quarantined()
    Release(select(ids=(ids[0],))).apply("bob")
    page = client.get(f"{LIST}{action.pk}/change/").content.decode()
    assert "Undo…" in page and "quarantined: wrong" in page
    plan = client.get(f"{LIST}{action.pk}/undo/").content.decode()
    assert "1 of them has changed since" in plan
    page = client.post(
        f"{LIST}{action.pk}/undo/", {"reason": "by mistake"}, follow=True
    ).content.decode()
    assert (
        "1 task has changed again since, so the undo left it alone." in page
        and "Left alone by the undo" in page
        and "Undo…" not in page
    )
    assert not Task.objects.filter(state="quarantined").exists()
    again = client.post(f"{LIST}{action.pk}/undo/")
    assert (again.status_code, "has undone this already" in again.content.decode()) == (400, True)


def test_what_was_changed_links_to_the_action(client: Client) -> None:
    action, ids = quarantined()
    for address in (f"task/{ids[0]}/change/",):
        assert (
            f"{LIST}{action.pk}/change/"
            in client.get(f"/admin/environments/{address}").content.decode()
        )
    environment = make_environment()
    for address in (
        "task/",
        f"environment/{environment.pk}/change/",
        f"split/{environment.splits.get().pk}/change/",
    ):
        assert LIST in client.get(f"/admin/environments/{address}").content.decode()


def test_the_security_log_links_to_the_action(client: Client) -> None:
    action, _ = quarantined()
    page = client.get("/admin/environments/securityevent/?kind=curated").content.decode()
    assert (
        f'Quarantined 3 tasks: <a href="{LIST}{action.pk}/change/">action {action.pk}</a>' in page
    )


def test_it_takes_the_permission_for_the_action_itself(client: Client) -> None:
    action, ids = quarantined()
    ada = User.objects.create_user("ada", is_staff=True)
    ada.user_permissions.set(Permission.objects.filter(codename__in=("view_task", "open_admin")))
    client.force_login(ada)
    assert "Undo…" not in client.get(f"{LIST}{action.pk}/change/").content.decode()
    assert client.post(f"{LIST}{action.pk}/undo/").status_code == 403
    assert served(make_environment().splits.get()) != ids


def test_it_shows_nothing_of_environments_that_are_hidden(client: Client) -> None:
    action, _ = quarantined()
    Environment.objects.update(is_private=True)
    bob = User.objects.create_user("bob", is_staff=True)
    bob.user_permissions.set(
        Permission.objects.filter(codename__in=("view_task", "change_task", "open_admin"))
    )
    client.force_login(bob)
    assert "Quarantined 3 tasks" not in client.get(LIST).content.decode()
    assert client.get(f"{LIST}{action.pk}/undo/").status_code == 404
