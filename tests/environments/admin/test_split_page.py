"""The page of a split: what it holds, freezing it, deleting it, and how it differs from what the class lists."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from pytest_django.fixtures import Settings

from environments.models import Split, SplitEntry, SplitRemoval
from tests.stored import make_split, make_task

pytestmark = pytest.mark.django_db(transaction=True)


def page_of(client: Client, split: Split) -> str:
    return client.get(f"/admin/environments/split/{split.pk}/change/").content.decode()


def act(client: Client, split: Split, action: str) -> str:
    """What the person reads after the second press."""
    address = f"/admin/environments/split/{split.pk}/{action}/"
    assert client.get(address).status_code == 200
    return client.post(address, follow=True).content.decode()


def curated(name: str = "hard") -> Split:
    split = make_split(make_task(), make_task(), name=name)
    Split.objects.filter(pk=split.pk).update(is_curated=True, is_served=True)
    return split


def test_it_lists_splits_with_their_sizes_and_marks(client: Client) -> None:
    curated("hard")
    page = client.get("/admin/environments/split/").content.decode()
    assert "hard" in page and '<span class="number">2</span>' in page and "people" in page


def test_it_says_what_the_split_is(client: Client) -> None:
    page = page_of(client, curated())
    for shown in ("math/hard", "people", "train", "Freeze…", "Delete…"):
        assert shown in page


def test_it_freezes_and_shows_the_hash(client: Client) -> None:
    split = curated()
    act(client, split, "freeze")
    split.refresh_from_db()
    assert split.frozen_hash and f"data-copy>{split.frozen_hash}<" in page_of(client, split)


def test_a_frozen_split_is_unfrozen_before_it_is_deleted(client: Client) -> None:
    split = curated()
    act(client, split, "freeze")
    page = page_of(client, split)
    assert "Delete…" not in page and "Unfreeze it first to delete it." in page


def test_it_unfreezes(client: Client) -> None:
    split = curated()
    act(client, split, "freeze")
    act(client, split, "unfreeze")
    assert "Not frozen" in page_of(client, split)


def test_it_deletes_a_curated_split_after_asking(client: Client) -> None:
    split = curated()
    client.get(f"/admin/environments/split/{split.pk}/delete/")
    assert "math/hard" in page_of(client, split)
    act(client, split, "delete")
    assert "hard" not in client.get("/admin/environments/split/").content.decode()


def test_a_split_of_the_class_cannot_be_deleted(client: Client) -> None:
    split = make_split(make_task())
    assert "Delete…" not in page_of(client, split)
    answer = client.get(f"/admin/environments/split/{split.pk}/delete/")
    assert answer.status_code == 400 and b"class" in answer.content


def test_it_says_what_the_class_lists_differently(client: Client) -> None:
    same, edited, added = make_task(), make_task({"question": "mended"}), make_task({"question": "new"})
    split = make_split(same, edited, added)
    Split.objects.filter(pk=split.pk).update(source_hash="0" * 64)
    SplitEntry.objects.filter(task=same).update(source_hash=same.content_hash)
    SplitEntry.objects.filter(task=edited).update(source_hash="1" * 64)
    SplitRemoval.objects.create(split=split, source_hash="2" * 64)
    page = page_of(client, split)
    assert "another task: it was edited" in page and "not there: people added it" in page
    assert "mended" in page and "new" in page and "took 1 of the class" in page


def test_it_says_when_the_class_lists_the_same(client: Client) -> None:
    split = make_split(task := make_task())
    Split.objects.filter(pk=split.pk).update(source_hash="0" * 64)
    SplitEntry.objects.update(source_hash=task.content_hash)
    assert "it holds exactly what the class lists" in page_of(client, split)


def test_a_large_split_is_compared_when_asked(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("environments.admin.split.AT_ONCE_TASKS", 1)
    split = make_split(make_task(), make_task())
    Split.objects.filter(pk=split.pk).update(source_hash="0" * 64)
    assert "Compare it with the class" in page_of(client, split)
    assert "people added it" in client.get(f"/admin/environments/split/{split.pk}/change/?compare").content.decode()


def test_only_who_may_change_splits_may_freeze(client: Client, settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {"one": "0123456789abcdef"}
    user = User.objects.create_user("ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_split"))
    client.force_login(user)
    split = curated()
    assert "Freeze…" not in page_of(client, split)
    assert client.post(f"/admin/environments/split/{split.pk}/freeze/").status_code == 403
