"""The list of tasks, as a person sees it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils.html import escape
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from environments.models import Split, SplitEntry, Task, TaskTag
from environments.tasks.flags import flag
from tests.rows import each
from tests.stored import NOW, make_split, make_statistics, make_task

pytestmark = pytest.mark.django_db

TASKS = "/admin/environments/task/"
LINE = re.compile(r'<td class="wide"><div class="line"><a href="[^"]*" title="([^"]*)"')


def listed(client: Client, query: str = "?state=any") -> list[str]:
    """Return the summaries on the page, in order; by default of tasks in any state."""
    answer = client.get(TASKS + query)
    assert answer.status_code == 200
    return LINE.findall(answer.content.decode())


def link(page: str, mark: str) -> str:
    """Return the query string of the link that is marked `mark`; empty if there is none."""
    found = re.search(rf'<a href="(\?[^"]*)"[^>]*{mark}', page)
    return found[1].replace("&amp;", "&") if found else ""


def question(text: str, **values: Any) -> Task:
    task = make_task({"question": text})
    Task.objects.filter(pk=task.pk).update(**values)
    return task


def test_it_sums_a_task_up_in_one_line(client: Client) -> None:
    question("How many?\n" + "x" * 500)
    [line] = listed(client)
    assert line.startswith("How many? xxx") and len(line) <= 200


def test_it_shows_the_newest_first(client: Client) -> None:
    question("old")
    question("new")
    assert listed(client) == ["new", "old"]


def test_a_task_is_named_by_its_place_before_its_first_words(client: Client) -> None:
    split = make_split(make_task(), make_task())
    name = '<span class="task-place">train #1</span>'
    assert name in client.get(TASKS).content.decode()
    assert name in client.get(f"{TASKS}?split={split.pk}").content.decode()


def test_it_runs_as_many_queries_for_a_full_page_as_for_one_task(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client.get(TASKS)  # makes the operator
    make_split(*(make_task() for _ in range(60)))
    # operator, environments, splits and tags to choose from; ids, the tasks, statistics, tags,
    # flags, places, splits, two for the names, and how many match
    with django_assert_num_queries(14) as queries:
        assert len(listed(client)) == 50
    with django_assert_num_queries(16):  # whether a class generates tasks
        assert len(listed(client, "")) == 50
    assert not [
        query for query in queries.captured_queries if re.search(r"COUNT\(|OFFSET", query["sql"])
    ]


def test_it_goes_from_page_to_page_and_back(client: Client) -> None:
    for number in range(70):
        question(f"number {number}")
    first = client.get(TASKS + "?state=any").content.decode()
    second = client.get(TASKS + link(first, "data-next")).content.decode()
    assert LINE.findall(second) == [f"number {number}" for number in range(19, -1, -1)]
    assert not link(second, "data-next")
    assert LINE.findall(
        client.get(TASKS + link(second, "data-previous")).content.decode()
    ) == LINE.findall(first)


def test_it_shows_a_split_in_its_order_with_places(client: Client) -> None:
    tasks = [question(text) for text in ("a", "b", "c")]
    split = make_split(tasks[2], tasks[0])
    assert listed(client, f"?split={split.pk}") == ["c", "a"]
    page = client.get(f"{TASKS}?split={split.pk}").content.decode()
    assert "2 served, in split order" in page


def test_names_last_and_a_task_s_page_says_which_index_agents_use(client: Client) -> None:
    tasks = [question(text) for text in ("a", "b", "c")]
    split = make_split(*tasks)
    SplitEntry.objects.filter(split=split, task=tasks[1]).update(is_hidden=True)
    Split.objects.filter(pk=split.pk).update(size=2)
    page = client.get(f"{TASKS}?split={split.pk}&state=any").content.decode()
    names = re.findall(r'task-place">([^<]+)<', page)
    assert names == ["train #0", "train #1 (quarantined)", "train #2"]
    for address in (f"{TASKS}{tasks[2].pk}/change/", f"/tasks/{tasks[2].pk}/"):
        page = client.get(address).content.decode()
        assert "train #2" in page and "index 1 for agents" in page
    assert "for agents" not in client.get(f"{TASKS}{tasks[0].pk}/change/").content.decode()


def test_it_filters_by_every_chip_at_once(client: Client) -> None:
    wanted = question("wanted", state="quarantined", source="import")
    other = question("other", state="quarantined", source="import")
    TaskTag.objects.create(task=wanted, name="odd one")
    query = f"?environment={wanted.environment_id}&tag=odd+one&state=quarantined&source=import&bucket=unseen"
    assert listed(client, query) == ["wanted"]
    assert listed(client, "?source=import&state=any") == ["other", "wanted"] and other


@pytest.mark.parametrize(
    ("bucket", "line"), [("hopeless", "never"), ("saturated", "always"), ("learnable", "often")]
)
def test_it_shows_and_filters_by_bucket(client: Client, bucket: str, line: str) -> None:
    for text, successes in (("never", 0), ("often", 5), ("always", 10)):
        make_statistics(question(text), 10, successes)
    question("unplayed")
    assert listed(client, f"?bucket={bucket}&state=any") == [line]
    assert listed(client, "?bucket=unseen&state=any") == ["unplayed"]


def test_it_says_what_a_rate_rests_on(client: Client) -> None:
    make_statistics(question("often"), 10, 5)
    page = client.get(TASKS + "?state=any").content.decode()
    assert (
        "5 of 10 attempts; 95 % interval 24% to 76%" in page and "50% " in page and "+0.50" in page
    )


def test_it_searches_inside_specs(client: Client) -> None:
    question("Find the <needle>.")
    question("Find hay.")
    assert listed(client, "?search=THE+<needle&state=any") == [escape("Find the <needle>.")]


def test_it_says_how_far_a_long_search_has_come(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("environments.curation.admin.task_list.MAX_SCAN_SECONDS", -1.0)
    for number in range(300):
        question(f"hay {number}")
    page = client.get(TASKS + "?search=needle&state=any").content.decode()
    assert "tasks so far" in page
    assert link(page, "data-continue").startswith("?state=any&search=needle&after=")


def test_it_shows_state_tags_source_and_splits(client: Client) -> None:
    task = question(
        "odd", state="quarantined", reason="The answer is wrong.", source="import", dropped=NOW
    )
    TaskTag.objects.create(task=task, name="<check>")
    make_split(task, name="held out")
    page = client.get(TASKS + "?state=any").content.decode()
    for shown in (
        "quarantined",
        "The answer is wrong.",
        "&lt;check&gt;",
        "imported",
        "no longer in the class",
        "held out",
    ):
        assert shown in page


def test_it_offers_the_tags_in_use(client: Client) -> None:
    for name in ("b", "a", "b"):
        TaskTag.objects.create(task=make_task(), name=name)
    page = client.get(TASKS).content.decode()
    assert re.findall(r'href="\?tag=(\w+)"', page) == ["a", "b"]


@each(
    "query",
    [
        *(
            "environment=999",
            "split=99999",
            "after=nonsense",
            "before=1,2,3",
            "after=r5",
            "after=5",
            "sort=bucket&after=n5",
        ),
        *("after=n9&before=n1", "state=any&state=served", "field=n&is=zzz&value=1"),
    ],
)
def test_what_names_no_place_in_the_list_is_refused(client: Client, query: str) -> None:
    make_task()
    answer = client.get(f"{TASKS}?{query}")
    assert (answer.status_code, "cannot be used: " in answer.content.decode()) == (400, True)


@pytest.mark.parametrize("path", ["", "export/", "act/quarantine/"])
def test_a_filter_that_cannot_be_used_is_refused(client: Client, path: str) -> None:
    answer = client.get(f"{TASKS}{path}?environment=math")
    assert answer.status_code == 400
    assert "environment=&#x27;math&#x27; cannot be used" in answer.content.decode()


def test_it_says_what_would_be_listed(client: Client) -> None:
    assert "No tasks yet." in client.get(TASKS).content.decode()


def test_it_says_that_nothing_matches(client: Client) -> None:
    make_task()
    assert (
        "No tasks match these filters." in client.get(TASKS + "?state=quarantined").content.decode()
    )


def test_someone_with_only_view_permission_is_offered_no_action(
    client: Client, settings: Settings
) -> None:
    settings.ORSWEB_API_KEYS = {"one": "0123456789abcdef"}
    make_task()
    client.force_login(viewer("view_task"))
    page = client.get(TASKS + "?state=any").content.decode()
    assert "data-row" in page and "Quarantine" not in page


def test_someone_without_view_permission_is_refused(client: Client, settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {"one": "0123456789abcdef"}
    client.force_login(viewer())
    assert client.get(TASKS).status_code == 403


def viewer(*permissions: str) -> User:
    user = User.objects.create_user("ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


def test_flagged_tasks_are_marked_and_are_a_list_of_their_own(client: Client) -> None:
    question("fine")
    flag(question("broken"), "ada", "The answer is wrong.")
    assert listed(client, "?flags=open&state=any") == ["broken"]
    page = client.get(TASKS + "?state=any").content.decode()
    assert page.count("</b>The answer is wrong.</span>") == 1 and "flags=open" in page


def test_what_is_superseded_is_listed_only_when_asked_for_and_leads_to_its_edit(
    client: Client,
) -> None:
    old, new = question("broken"), question("fixed", source="edit")
    make_split(new)
    Task.objects.filter(pk=old.pk).update(replaced_by=new)
    assert listed(client, "") == ["fixed"]
    assert (
        f'superseded by <a href="{new.pk}/change/">'
        in client.get(TASKS + "?state=superseded").content.decode()
    )
    page = client.get(TASKS + "?search=broken").content.decode()
    assert '<a href="?state=any&amp;search=broken">Search all tasks</a>' in page


def test_columns_of_figures_can_be_sorted(client: Client) -> None:
    split = make_split(question("a"))
    page = client.get(f"{TASKS}?split={split.pk}").content.decode()
    heads = re.findall(
        r"<th([^>]*)>(.*?)</th>", page.partition("<thead")[2].partition("</thead>")[0], re.DOTALL
    )
    names = [re.search(r"[?;]sort=-?(\w+)", inside) for _, inside in heads]
    assert [name[1] for name in names if name] == ["attempts", "return", "success", "bucket"]


def test_it_sorts_by_a_click_on_a_column_and_goes_on_from_page_to_page(client: Client) -> None:
    for number in range(60):
        make_statistics(question(f"number {number}"), number + 1, 0)
    first = client.get(TASKS + "?state=any&sort=-attempts").content.decode()
    assert 'aria-sort="descending"><a href="?state=any&amp;sort=attempts">Attempts' in first
    second = client.get(TASKS + link(first, "data-next")).content.decode()
    assert LINE.findall(first) + LINE.findall(second) == [
        f"number {number}" for number in range(59, -1, -1)
    ]
    page = client.get(
        f"{TASKS}{Task.objects.first().pk}/change/?list=state%3Dany%26sort%3D-attempts&at=r59"
    )
    assert "at=r58" in page.content.decode()  # a review keeps the order


def test_a_field_is_chosen_by_a_form_and_one_that_tasks_do_not_have_is_refused_on_the_page(
    client: Client,
) -> None:
    query = f"?environment={question('How many?').environment_id}&state=any"
    page = client.get(TASKS + query).content.decode()
    assert '<option value="question">question</option>' in page
    sent = client.get(f"{TASKS}{query}&search=how&field=question&is=~&value=many+is", follow=True)
    assert sent.redirect_chain[0][0].endswith("&state=any&search=how+question~%22many+is%22")
    refused = client.get(f"{TASKS}{query}&search=qestion:3")
    assert refused.status_code == 400
    assert (
        escape("tasks of 'math' have no such field; they have question.")
        in refused.content.decode()
    )


@each(
    ("query", "label"),
    [("", "Release"), ("?state=pasted", "Release"), ("?state=quarantined", "Quarantine")],
)
def test_it_offers_no_action_that_changes_nothing(client: Client, query: str, label: str) -> None:
    make_split(make_task(), name=label + query)
    question(f"pasted {query}")
    question(f"bad {query}", state="quarantined")
    page = client.get(TASKS + query).content.decode()
    assert "Add tags</button>" in page and f">{label}</button>" not in page


def test_it_says_how_many_tasks_match(client: Client) -> None:
    make_split(make_task(), make_task())
    assert '<span class="hint">2 tasks</span>' in client.get(TASKS).content.decode()


def test_a_bucket_without_success_has_a_plain_name(client: Client) -> None:
    task = make_task()
    make_split(task)
    make_statistics(task, attempts=4, successes=0)
    page = client.get(f"{TASKS}?bucket=hopeless").content.decode()
    assert "<b>never solved</b>" in page and "</b>never solved</span>" in page
