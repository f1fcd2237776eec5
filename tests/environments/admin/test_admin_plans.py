"""No statement of the admin goes through a table that can grow: not of a list, a row, an action, an
import or an undo.

Every list is visited with the first and the last value of each filter, each search and each order
that its page offers; what differs by value besides (VARIED) with all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models import Model
from django.test import Client
from pytest_django.fixtures import Settings

from environments.admin.strict_list import StrictChangeList
from environments.curation.task_filter import SORTS, STATE_CHOICES
from environments.database import background_jobs
from environments.keys.stored_keys import make_key
from environments.models import ApiKey, CurationAction, Split, SplitRemoval, Task, TaskRevision
from environments.tasks.task_states import SERVED
from tests.environments.curation.tasks import make_tasks
from tests.orsweb.pages.test_private import ADDRESSES
from tests.people import member
from tests.private import NUMBER, make_private
from tests.statement_plans import SMALL, caught, judge
from tests.stored import make_environment

pytestmark = pytest.mark.django_db(transaction=True)

TASKS = "/admin/environments/task/"
SPLITS = "/admin/environments/split/"
ENVIRONMENT = f"/admin/environments/environment/{NUMBER}/do/"
VARIED = ("ending", "period", "groups__id__exact", "groups__isnull")
"""Parameters of lists of which not every value asks for the same of the database."""
SCORING = {
    "default_return": "sum",
    "reward_low": "0",
    "reward_high": "2",
    "success_threshold": "0.5",
}
EXCEPTIONS = {
    '"fits"': "a span of a walk: at most 5,000 rows along the index of a filter "
    "(docs/decisions/0018)",
    '"episodes_run"."name") LIKE': "runs are found by a part of their name",
    '"environments_curationaction"."title") LIKE': "actions are found by a part of what was done",
    '"environments_securityevent"."what") LIKE': "entries of the log are found by a part of their "
    "texts",
    '"episodes_run"."name") COLLATE "C"': "the same on PostgreSQL",
    '"environments_curationaction"."title") COLLATE "C"': "the same on PostgreSQL",
    '"environments_securityevent"."what") COLLATE "C"': "the same on PostgreSQL",
    '<> LENGTH("episodes_run"."name")': "names that a database cannot fold are read",
    '<> LENGTH("environments_curationaction"."title")': "the same",
    '<> LENGTH("environments_securityevent"."what")': "the same",
    'WHERE NOT "episodes_episode"."is_probe" ORDER BY': "most episodes are no probes",
    'WHERE "episodes_episode"."player" = %s ORDER BY': "most episodes are of agents, who are asked "
    "for by this",
}
"""Parts of statements that may read a whole table, with the reason."""


class Visitor(Client):
    """A browser that is led to a page of each kind once."""

    def __init__(self) -> None:
        super().__init__()
        self.visited = {""}
        """Addresses without what differs in a kind; the empty one: where no redirect leads."""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Visitor:
    """A browser of somebody who may do everything, with rows of everything. Pages are short:
    statements are alike."""
    monkeypatch.setattr("environments.curation.admin.task_list.PAGE_TASKS", 3)
    environment = make_private()
    make_environment("other")
    ids = make_tasks(7, environment=environment)
    split = Split.objects.create(
        pk=NUMBER + 1,
        environment=environment,
        name="held-out",
        type="test",
        is_curated=True,
        is_served=True,
    )
    _fill(split, ids)
    make_key("lab", scopes=["play", "read"])
    client = Visitor()
    client.force_login(member("operator", is_superuser=True, is_staff=True))
    return client


def _fill(split: Split, ids: list[int]) -> None:
    split.entries.bulk_create(
        [split.entries.model(split=split, position=n, task_id=pk) for n, pk in enumerate(ids)]
    )
    Split.objects.filter(pk=split.pk).update(size=len(ids))


def visit_lists(client: Visitor) -> None:
    """Visit each list of the admin, and the addresses that its page offers."""
    for model, of_model in admin.site._registry.items():
        path = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        answer = client.get(path)
        client.visited.add(path)
        if "cl" not in (answer.context_data or {}):  # the list of tasks, which has its own
            continue
        for query in queries_of(model, of_model, answer.context_data["cl"]):
            assert client.get(path + query).status_code in (200, 302), query


def queries_of(
    model: type[Model], of_model: admin.ModelAdmin[Any], shown: StrictChangeList
) -> Iterator[str]:
    """Yield the queries of filters but for the first choice of each, which is all rows, of searches
    and of orders."""
    for spec in shown.filter_specs:
        _, *choices = [choice["query_string"] for choice in spec.choices(shown)]
        yield from (
            choices
            if any(f"?{name}=" in choices[-1] for name in VARIED)
            else {choices[0], choices[-1]}
        )
    if of_model.get_search_fields(None):
        yield from (f"?q={text}" for text in ("canaryrun", str(NUMBER), "a b"))
    # of a small table, only what is joined can grow
    signs = ("",) if model.__name__ in SMALL else ("", "-")
    yield from (f"?o={sign}{n}" for n in shown.sortable_columns() for sign in signs)


def lists_of_tasks(client: Client) -> Iterator[str]:
    """Yield the addresses of the list of tasks with its filters and orders, of an environment, a
    split and all."""
    filters = [
        *(f"state={state}" for state in STATE_CHOICES if state != SERVED),
        *(
            f"bucket={bucket}"
            for bucket in ("failing", "unseen", "hopeless", "learnable", "saturated")
        ),
        *("source=code", "source=dropped"),
        *("flags=open&state=any", "tag=canarytag", "tag=canarytag&state=any", "search=canaryspec"),
        *("search=cccccccc", "tag=canarytag&bucket=learnable&state=any", "search=n%3A3"),
    ]
    for place in ("", f"environment={NUMBER}&", f"split={NUMBER + 1}&"):
        yield from (f"{TASKS}?{place}{one}" for one in filters)
        yield from (f"{TASKS}?{place}sort={sort}" for sort in SORTS)
    for address in (
        f"{TASKS}?split={NUMBER + 1}",
        f"{TASKS}?environment={NUMBER}",
        f"{TASKS}?split={NUMBER + 1}&sort=bucket",
    ):
        page = client.get(address).context_data["page"]
        yield f"{TASKS}?{client.get(f'{TASKS}?{page.next}').context_data['page'].previous}"


def done(client: Visitor, path: str, values: Any = None) -> None:
    """Send a form, wait for its job if there is one, and visit the page after it, if it is the
    first of its kind."""
    earlier = {job.id for job in background_jobs.jobs()}
    answer = client.post(path, values or {})
    assert answer.status_code in (200, 302), (
        path,
        answer.status_code,
        re.findall(r"role=.alert[^<]*", answer.content.decode()),
    )
    for job in background_jobs.jobs():
        assert job.id in earlier or (job.wait(60) and job.state == "done"), job
    after = answer.headers.get("Location", "")
    if (kind := re.sub(r"\d+|/jobs/[^/]+", "", after)) not in client.visited:
        client.visited.add(kind)
        assert client.get(after, follow=True).status_code == 200, after


def bulk(client: Visitor, action: str, /, **values: Any) -> None:
    """Do a bulk action as a person does: see its page, fill in the form, see the plan, confirm."""
    path = f"{TASKS}act/{action}/"
    page = client.get(path, {**values, "ask": "1"}).content.decode()
    inputs = re.search(r'name="inputs" value="([^"]*)"', page)
    assert inputs, (action, page[-3000:])
    done(client, path, {**values, "ask": "1", "confirm": "1", "inputs": inputs[1]})


def act_on_tasks(client: Visitor) -> None:
    """Do each bulk action with checked tasks, with those of filters, and with all of a split."""
    checked = ",".join(map(str, Task.objects.order_by("pk").values_list("pk", flat=True)[:3]))
    chosen = (
        {"ids": checked},
        {"split": NUMBER + 1, "scope": "all"},
        {"environment": NUMBER, "tag": "mark", "search": "n", "scope": "all", "state": "any"},
    )
    for number, values in enumerate(chosen):
        bulk(client, "tag", **values, tags="mark")
        bulk(client, "quarantine", **values, reason="odd")
        bulk(client, "release", **{**values, "state": "any"})
        bulk(client, "save", **values, name=f"new-{number}", type="train")
        new = Split.objects.get(name=f"new-{number}").pk
        bulk(client, "copy", **values, into=NUMBER)
        bulk(client, "move", **values, out_of=NUMBER, into=new)
        bulk(client, "remove", **{**values, "split": new, "scope": "all"}, reason="odd")
    bulk(client, "untag", **chosen[2], tags="mark")
    done(client, f"{TASKS}act/study/", {"ids": checked})
    done(client, f"{TASKS}act/export/", {"split": NUMBER, "scope": "all"})


def act_on_rows(client: Visitor) -> None:
    """Change a task, a split and an environment from their pages."""
    task = Task.objects.filter(environment=NUMBER).exclude(pk=NUMBER).latest("pk").pk
    for action in ("check", "try", "save"):
        client.post(
            f"{TASKS}{task}/edit/",
            {"spec": '{"n": "edited"}', "seen": 0, "action": action, "reason": "why"},
        )
    edited = Task.objects.get(source="edit").pk
    for action in ("quarantine", "release", "tag", "untag", "accept"):
        done(client, f"{TASKS}{edited}/do/", {"action": action, "reason": "odd", "tags": "mark"})
    done(client, f"{TASKS}{NUMBER}/settle/")
    for revision in TaskRevision.objects.filter(successor=edited):
        client.get(f"{TASKS}{edited}/restore/{revision.pk}/")
        done(client, f"{TASKS}{edited}/restore/{revision.pk}/", {"reason": "it was right"})
    for action in ("freeze", "unfreeze", "seal", "unseal"):
        client.get(f"{SPLITS}{NUMBER + 1}/{action}/")
        done(client, f"{SPLITS}{NUMBER + 1}/{action}/")
    client.get(f"{SPLITS}{NUMBER + 1}/change/?review=1")
    Split.objects.filter(pk=NUMBER).update(source_hash="0" * 64)
    SplitRemoval.objects.create(
        split_id=NUMBER, source_hash=Task.objects.filter(environment=NUMBER)[0].content_hash
    )
    client.get(f"{SPLITS}{NUMBER}/change/?compare=1")
    client.get(f"{SPLITS}{NUMBER}/delete/")
    done(client, f"{SPLITS}{NUMBER + 1}/delete/")
    done(client, ENVIRONMENT, {"action": "score", **SCORING})
    for action in ("declared", "disable", "enable", "blind", "seeing", "public", "private"):
        done(client, ENVIRONMENT, {"action": action})


def undo_all(client: Visitor) -> None:
    """Undo the last action of each kind, and the import that made a split. See the first of each
    before, one after."""
    actions = CurationAction.objects.order_by("pk")[:200]
    last, first = (
        {one.kind: one.pk for one in kept}.values() for kept in (actions, reversed(actions))
    )
    for pk in first:
        client.get(f"/admin/environments/curationaction/{pk}/change/")
    for pk in sorted({*last, min(first)}, reverse=True):
        path = f"/admin/environments/curationaction/{pk}"
        if client.get(f"{path}/undo/").status_code == 200:
            client.post(f"{path}/undo/", {"reason": "by mistake"})
            for job in background_jobs.jobs():
                assert job.wait(60)
    client.get(f"{path}/change/")


def import_tasks(client: Visitor) -> None:
    lines = "".join(json.dumps({"n": f"imported {n}"}) + "\n" for n in range(5)) + '{"n": 1}\n'
    for split in ("imported", "canarysplit"):
        values = {"environment": NUMBER, "split": split, "type": "train"}
        answer = client.post(
            f"{TASKS}import/", {**values, "file": SimpleUploadedFile("tasks.jsonl", lines.encode())}
        )
        assert "imported 1" in client.get(answer["Location"]).content.decode()
        done(client, answer["Location"])


def test_no_statement_of_a_page_does(client: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    with caught(monkeypatch) as statements:
        visit_lists(client)
        for path in lists_of_tasks(client):
            assert client.get(path).status_code in (200, 302, 400), path
            client.visited.add(path)
        for path in (
            f"/{path}" for path in ADDRESSES if path.startswith("admin/") and "logout" not in path
        ):
            if path not in client.visited:
                client.get(path)
    judge(statements, EXCEPTIONS, least=200)


def test_no_statement_of_an_action_or_its_undo_does(
    client: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caught(monkeypatch) as statements:
        import_tasks(client)
        act_on_tasks(client)
        act_on_rows(client)
        undo_all(client)
    judge(statements, EXCEPTIONS, least=300)


def test_no_statement_of_keys_accounts_and_removals_does(
    client: Visitor, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    key = ApiKey.objects.get().pk
    with caught(monkeypatch) as statements:
        done(
            client,
            "/admin/environments/apikey/add/",
            {"name": "new", "scopes": ["play"], "days": "2"},
        )
        done(
            client,
            f"/admin/environments/apikey/{key}/edit/",
            {"name": "lab", "scopes": ["play"], "expires": ""},
        )
        done(client, f"/admin/environments/apikey/{key}/quotas/")
        done(client, f"/admin/environments/apikey/{key}/revoke/", {"confirm": "1"})
        done(client, "/admin/episodes/retention/add/", {"run": "canaryrun", "days": 9})
        done(client, f"/admin/episodes/retention/{NUMBER}/delete/", {"post": "yes"})
        done(client, "/admin/auth/group/add/", {"name": "team"})
        done(
            client,
            "/admin/auth/user/add/",
            {
                "username": "eve",
                "password1": "correct horse",
                "password2": "correct horse",
                "usable_password": "true",
            },
        )
        for query in ("run=canaryrun&player=human", "environment=canaryenv"):
            page = client.get("/admin/episodes/episode/remove/", {"query": query}).content.decode()
            mark = re.search(r'name="confirm" value="([^"]+)"', page)
            assert mark
            done(
                client,
                "/admin/episodes/episode/remove/",
                {"query": query, "confirm": mark[1], "reason": "a test"},
            )
        done(client, f"/admin/episodes/suite/{NUMBER}/delete/", {"post": "yes"})
    judge(statements, EXCEPTIONS, least=50)
