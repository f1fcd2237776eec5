"""A parameter that a list does not have is refused: without it, "all that match" would mean all."""

from __future__ import annotations

from itertools import cycle
from urllib.parse import quote

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from environments.curation.admin.bulk import BULKS
from environments.models import CurationAction, Task, TaskTag
from tests.environments.curation.tasks import make_tasks, split_of
from tests.rows import each
from tests.stored import NOW

pytestmark = pytest.mark.django_db

TASKS = "/admin/environments/task/"
ALL = {"scope": "all", "reason": "x", "tags": "x", "ask": "1", "confirm": "1", "inputs": "x||||"}


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="correct horse"))
    return client


def addresses() -> list[str]:
    names = [(model._meta.app_label, model._meta.model_name) for model in admin.site._registry]
    return [reverse(f"admin:{app}_{name}_changelist") for app, name in names]


def refusal(client: Client, path: str, query: str) -> str:
    """Return the sentence with which a page refuses the query; empty if it does not."""
    answer = client.get(f"{path}?{query}")
    text = answer.content.decode()
    return (
        text[text.index("<h1") :]
        if answer.status_code == 400 and " cannot be used: " in text
        else ""
    )


@each("query", ["environmen=1", "zplit=2&q=x", "e=2", "e=1&kindd=edit", "_popup=1"])
def test_every_list_of_the_admin_refuses_them(root: Client, query: str) -> None:
    assert [path for path in addresses() if "no filter" not in refusal(root, path, query)] == []


@each("query", ["o=zzz", "o=99", "o=-", "p=abc", "p=0", "p=-1", "p=999", "p=2&p=3"])
def test_every_list_refuses_an_order_or_a_page_that_it_does_not_have(
    root: Client, query: str
) -> None:
    assert [path for path in addresses() if not refusal(root, path, query)] == []


@each("lookup", ["", "__exact", "__in"])
def test_every_list_refuses_a_choice_that_its_rows_do_not_have(root: Client, lookup: str) -> None:
    fields = [
        (model, field)
        for model in admin.site._registry
        if model is not Task
        for field in model._meta.fields
    ]
    chosen = [
        (model, one)
        for model, one in fields
        if one.choices or one.get_internal_type() == "BooleanField"
    ]
    for model, field in chosen:
        path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        allowed = (
            "1, 0, True, False"
            if not field.choices
            else ", ".join(str(key) for key, _ in field.flatchoices)
        )
        assert f"allowed are {allowed}." in refusal(root, path, f"{field.name}{lookup}=zzz"), (
            path,
            field.name,
        )
    assert len(chosen) > 8


@each(
    ("path", "query", "sentence"),
    [
        (
            "auth/user",
            "is_active__exact=zzz",
            "is_active__exact=&#x27;zzz&#x27; cannot be used: allowed are 1, 0",
        ),
        ("auth/user", "groups__id__exact=999", "there is no group of that number"),
        ("auth/user", "groups__isnull=maybe", "allowed are 1, 0"),
        ("auth/user", "o=2", "allowed are 1, 3, 4, 5, with -"),
        ("auth/user", "all=zzz", "allowed are 1, True"),
        ("episodes/run", "name__regex=%5B", "lists are not searched by regular expressions"),
        ("environments/task", "sort=-", "with - before it for the greatest first"),
        ("environments/task/import", "environment=999", "there is no environment of that number"),
        ("environments/task/import", "split=999", "there is no split of that number"),
        ("environments/task/import", "type=zzz", "allowed are train, validation, test"),
        ("environments/task/export", "format=zzz", "allowed are jsonl, json, csv, parquet"),
        ("episodes/episode/remove", "episode=zzz", "it has to be the number of an episode"),
        ("environments/curationaction", "kind=zzz", "allowed are quarantine, release"),
        ("environments/curationaction", "environment=5", "there is no environment of that number"),
        ("environments/curationaction", "split=5", "there is no split of that number"),
        ("environments/securityevent", "period=month", "allowed are hour, day, week"),
        ("episodes/episode", "probes=yes", "allowed are no, only"),
        ("episodes/episode", "ending=won", "allowed are running"),
        ("episodes/episode", "probes=no&probes=only", "the address has it more than once"),
        ("episodes/run", "q=a&state=zzz", "state=&#x27;zzz&#x27; cannot be used"),
        ("episodes/incident", "q=text", "no filter has that name"),
    ],
)
def test_a_refusal_names_the_value_and_what_is_allowed(
    root: Client, path: str, query: str, sentence: str
) -> None:
    assert sentence in refusal(root, f"/admin/{path}/", query)


def test_a_date_that_is_none_is_refused_with_the_form_of_one(root: Client) -> None:
    answer = root.get("/admin/episodes/run/?created__gte=tomorrow")
    assert (answer.status_code, "YYYY-MM-DD" in answer.content.decode()) == (400, True)


def test_a_quotation_mark_alone_is_searched_for(root: Client) -> None:
    assert "No results" in root.get("/admin/environments/curationaction/?q=%22").content.decode()


def test_a_list_leads_to_a_next_page_only_if_there_is_one(root: Client) -> None:
    for number in range(51):
        CurationAction.objects.create(
            kind="edit", author="root", stage="done", created=NOW, token=f"{number:032}"
        )
    path = "/admin/environments/curationaction/"
    assert "p=2" in root.get(path).content.decode()
    last = root.get(f"{path}?p=2").content.decode()
    assert "p=1" in last and "p=3" not in last
    CurationAction.objects.filter(token="0" * 32).delete()
    assert "p=2" not in root.get(path).content.decode()


LOOSE = ["1_0", "\uff11", " 1 ", "1.0", "+1", "1e0", "0x1"]
"""What Python reads as a number, or nearly."""


def test_no_list_of_the_admin_reads_other_spellings_of_a_number(root: Client) -> None:
    texts = cycle(LOOSE)
    for model in admin.site._registry:
        path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for name in ("id__exact", "pk__in", "p"):
            text = next(texts)
            assert root.get(path, {name: text}).status_code == 400, (path, name, text)
        answer = root.get(f"{path}{quote(text)}/change/")
        assert (
            answer.status_code in (302, 404)
            and answer.headers.get("Location", "/admin/") == "/admin/"
        ), path


@pytest.mark.parametrize("action", [*BULKS, "export", "study"])
def test_no_form_of_an_action_has_parameters_beside_it(root: Client, action: str) -> None:
    make_tasks(3)
    for query in ("search=nothing", "buckett=hopeless", "ids=1", "scope=all&ask=1"):
        answer = root.post(f"{TASKS}act/{action}/?{query}", ALL)
        assert (answer.status_code, "there are none here" in answer.content.decode()) == (
            400,
            True,
        ), query
    assert not TaskTag.objects.exists() and not Task.objects.exclude(state="active").exists()


@pytest.mark.parametrize("action", ["tag", "quarantine", "copy", "export", "study"])
def test_no_action_on_all_that_match_takes_them(root: Client, action: str) -> None:
    make_tasks(3)
    answer = root.post(f"{TASKS}act/{action}/", {**ALL, "buckett": "hopeless"})
    assert answer.status_code == 400
    assert (
        "no filter of tasks has that name. Did you mean &#x27;bucket&#x27;?"
        in answer.content.decode()
    )
    assert not TaskTag.objects.exists() and not Task.objects.exclude(state="active").exists()


@pytest.mark.parametrize("address", ["", "export/", "export/?format=jsonl", "act/tag/?scope=all"])
def test_no_address_about_tasks_takes_them(root: Client, address: str) -> None:
    sign = "&" if "?" in address else "?"
    assert root.get(f"{TASKS}{address}{sign}statte=quarantined").status_code == 400


def test_a_study_takes_no_mistyped_condition(root: Client) -> None:
    assert root.get("/play/studies/new/?tasks=split/1&number=0-3").status_code == 400


def test_what_acts_on_many_says_on_how_many(root: Client) -> None:
    split_of(*make_tasks(3))
    page = root.get(f"{TASKS}?state=any").content.decode()
    assert "all matching tasks (3)" in page
    address = root.post(f"{TASKS}act/quarantine/", {"scope": "all", "state": "any"})["Location"]
    assert ">Quarantine: 3 tasks</button>" in root.get(address).content.decode()
    assert ">Download 3 tasks</button>" in root.get(f"{TASKS}export/").content.decode()
