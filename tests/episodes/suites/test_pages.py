"""The pages of suites: list, leaderboard, citation, files, comparison, and the form that publishes
them."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from environments.models import Split, Task
from environments.tasks.split_change import SplitChange, commit
from episodes.models import Study, Suite, SuiteTask, SuiteVersion
from tests.episodes.api.asking import get
from tests.episodes.suites.published import (
    broken_core,
    core,
    environment_of,
    make_suite,
    member,
    split_of,
)
from tests.people import client_of
from tests.stored import make_split

pytestmark = pytest.mark.django_db


def text_of(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.content
    return answer.content.decode()


def form(*members: tuple[Split, str], **values: Any) -> dict[str, Any]:
    """Return the fields of the form with these splits and weights."""
    sent: dict[str, Any] = {
        "name": "core",
        "score": "success",
        "member-TOTAL_FORMS": 6,
        "member-INITIAL_FORMS": 0,
    }
    for number, (split, weight) in enumerate(members):
        sent |= {f"member-{number}-split": split.pk, f"member-{number}-weight": weight}
    return {**sent, **values}


def test_the_list_leads_to_the_latest_version(client: Client) -> None:
    core()
    page = text_of(client, "/suites/")
    assert (
        'href="/suites/core/"' in page and 'href="/suites/core/v1/"' in page and "math/test" in page
    )


def test_the_list_has_the_best_model_of_each_suite_with_its_score(client: Client) -> None:
    core()
    make_suite(member(split_of("chess", 1)), name="empty")
    page = text_of(client, "/suites/")
    first, second = re.findall(r"<tr>.*?</tr>", page.partition("<tbody>")[2], re.DOTALL)
    assert "strong" in first and "91.7%" in first and 'title="95% interval"' in first
    assert "2 ranked" in first and "complete" in first and "<time" in first
    assert "no results" in second


def test_the_list_says_which_suites_are_provisional_and_why(client: Client) -> None:
    broken_core()
    page = text_of(client, "/suites/")
    assert "provisional" in page and "1 task fails" in page


def test_results_by_an_earlier_definition_are_on_the_page_of_the_suite(client: Client) -> None:
    environment = environment_of(core())
    environment.success_threshold = 0.5
    environment.save()
    assert "results on its page" in text_of(client, "/suites/")


def test_an_empty_list_says_what_would_be_there(client: Client) -> None:
    assert "No suites yet" in text_of(client, "/suites/")


def test_a_score_can_be_cited(client: Client) -> None:
    version = core()
    cited = f"core v1, sha256:{version.hash}: strong, success rate 0.917 (95% interval "
    assert cited in text_of(client, "/suites/core/")
    page = text_of(client, "/suites/core/?cite=weak")
    assert "weak, success rate 0.375 (95% interval " in page
    assert "6 tasks, 7 attempts. http://testserver/suites/core/v1/" in page


def test_who_is_not_ranked_is_shown_with_what_is_missing(client: Client) -> None:
    core()
    page = text_of(client, "/suites/core/")
    assert "1 unranked" in page and re.search(
        r"maze/test <span class=\"hint\">2 tasks</span>", page
    )


def test_earlier_versions_stay_at_their_address(client: Client) -> None:
    first = core()
    second = make_suite(member(Split.objects.get(environment__name="math")))
    assert first.hash in text_of(client, "/suites/core/v1/")
    assert "not the latest version" in text_of(client, "/suites/core/v1/")
    assert second.hash in text_of(client, "/suites/core/")


def test_a_file_has_every_figure(client: Client) -> None:
    version = core()
    [first, *_] = csv.DictReader(io.StringIO(text_of(client, "/suites/core/?format=csv")))
    assert (first["model"], first["rank"], first["sha256"]) == ("strong", "1", version.hash)
    assert (first["1 math/test score"], first["2 maze/test score"], first["suite_tasks"]) == (
        "0.75",
        "1.0",
        "6",
    )


def test_tasks_that_fail_for_everybody_are_named(client: Client) -> None:
    _, [_, always] = broken_core()
    page = text_of(client, "/suites/core/")
    assert "1 task has only failures of the environment." in page
    assert f'href="/tasks/{always.pk}/"' in page and "4 failed episodes" in page
    assert "Provisional leaderboard" in page and "5 of 6 tasks (provisional: " in page
    [first, *_] = csv.DictReader(io.StringIO(text_of(client, "/suites/core/?format=csv")))
    assert (first["failing_tasks"], first["is_provisional"]) == ("1", "true")
    suite = get("suites/core")
    assert suite["is_provisional"]
    assert [(task["id"], task["failures"]) for task in suite["failing_tasks"]] == [(always.pk, 4)]


def test_tasks_that_are_quarantined_are_named_first(client: Client) -> None:
    version = core()
    [first, *_] = SuiteTask.objects.filter(member__version=version).order_by("pk")
    assert "quarantined" not in text_of(client, "/suites/core/")
    Task.objects.filter(pk=first.task_id).update(state="quarantined", reason="It fails.")
    page = text_of(client, "/suites/core/")
    assert page.index("1 task is quarantined.") < page.index('id="board"')
    assert f'href="/tasks/{first.task_id}/"' in page and "It fails." in page
    assert "1 quarantined" in text_of(client, "/suites/")


def test_a_task_that_fails_and_is_quarantined_is_named_once(client: Client) -> None:
    _, [_, always] = broken_core()
    Task.objects.filter(pk=always.pk).update(state="quarantined", reason="It fails.")
    page = text_of(client, "/suites/core/")
    assert "1 task has only failures of the environment and is quarantined." in page
    assert page.count('role="note"') == 1 and page.count(f'href="/tasks/{always.pk}/"') == 1
    assert "4 failed episodes" in page and "Publish a version without it" in page


def test_tasks_that_fail_and_others_that_are_quarantined_are_in_one_notice(client: Client) -> None:
    _, [sometimes, always] = broken_core()
    Task.objects.filter(pk=sometimes.pk).update(state="quarantined", reason="It fails.")
    page = text_of(client, "/suites/core/")
    assert page.count('role="note"') == 1
    assert "1 task has only failures of the environment." in page
    assert "1 task is quarantined." in page
    for task in (sometimes, always):
        assert page.count(f'href="/tasks/{task.pk}/"') == 1


@pytest.mark.django_db(transaction=True)
def test_tasks_keep_their_names_when_one_is_quarantined(client: Client) -> None:
    [first, *_] = SuiteTask.objects.filter(member__version=core()).order_by("pk")

    def names() -> list[str]:
        page = text_of(client, "/suites/core/v1/compare/?first=weak&second=strong")
        return re.findall(r'class="task-place" href="([^<]+)</a>', page)

    published = names()
    assert f'/tasks/{first.task_id}/">math test #0' in published
    Task.objects.filter(pk=first.task_id).update(state="quarantined", reason="It fails.")
    with SplitChange(first.member.split) as change:
        change.refresh([first.task_id])
        commit(change)
    assert [name.removesuffix(" (quarantined)") for name in names()] == published


def test_two_models_are_compared(client: Client) -> None:
    core()
    page = text_of(client, "/suites/core/v1/compare/?first=weak&second=strong")
    assert (
        "Over the suite" in page and "Effect size" in page and "6 tasks that both attempted" in page
    )
    counted = re.findall(r'(weak|strong):\s*<span class="number">(\d+)<', page)
    assert counted == [("strong", "6"), ("weak", "7")]


def test_columns_are_in_the_order_of_the_heading_and_count_attempts(client: Client) -> None:
    core()
    page = text_of(client, "/suites/core/v1/compare/?first=weak&second=strong")
    assert re.search(r"<h1>strong <span [^>]+>compared with</span> weak</h1>", page)
    for table in page.split("<thead>")[1:]:
        heads = re.findall(r"<th[^>]*>(strong|weak)\b", table)
        assert heads == ["strong", "weak"]
    assert "n = 2" in page and "+62.5 pp" in page


def test_tasks_at_which_a_model_is_worse_are_listed_alone(client: Client) -> None:
    core()
    address = "/suites/core/v1/compare/?first=weak&second=strong"
    task = 'class="task-place"'
    assert text_of(client, address).count(task) == 4
    assert "strong is worse at no task" in text_of(client, f"{address}&tasks=worse")
    turned = "/suites/core/v1/compare/?first=strong&second=weak"
    assert text_of(client, f"{turned}&tasks=worse").count(task) == 4
    assert "weak is worse at 4 tasks" in text_of(client, turned)


def test_a_task_of_a_comparison_leads_to_the_attempts_of_each(client: Client) -> None:
    core()
    page = text_of(client, "/suites/core/v1/compare/?first=weak&second=strong")
    assert re.search(r'\?task=\d+&amp;model=weak&amp;ending=attempt">n = 2</a>', page)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("cor/", 404, "Did you mean &#x27;core&#x27;?"),
        ("core/v9/", 404, "There is no v9 of the suite core"),
        ("core/?by=colour", 400, "allowed are model, run"),
        ("core/?format=xml", 400, "allowed are csv"),
        ("core/?cite=nobody", 400, "no model of this name has a rank here"),
        ("core/v1/compare/?first=weak&second=nobody", 400, "no model of that name has an attempt"),
        ("core/v1/compare/?first=weak&second=strong&tasks=some", 400, "allowed are worse"),
        ("core/v1/compare/", 400, "it is the model that it is compared with"),
        ("core/?colour=red", 400, "no parameter has that name"),
    ],
)
def test_what_does_not_exist_is_named(client: Client, path: str, status: int, words: str) -> None:
    core()
    assert words in text_of(client, f"/suites/{path}", status)


def test_a_filter_by_an_unknown_version_names_those_that_there_are(client: Client) -> None:
    core()
    assert "Did you mean &#x27;core/v1&#x27;" in text_of(client, "/episodes/?suite=core/v2", 400)
    assert "it has to be a version of a suite" in text_of(client, "/episodes/?suite=core", 400)


def test_the_form_publishes_a_suite_and_its_next_version() -> None:
    client, math, maze = client_of("curator"), split_of("math", 2), split_of("maze", 1)
    assert client.get("/suites/new/").status_code == 200
    sent = form((math, "1"), (maze, "0.5"), description="Short.", **{"member-1-threshold": "0.25"})
    assert client.post("/suites/new/", sent)["Location"] == "/suites/core/v1/"
    members = SuiteVersion.objects.get().members.order_by("number")
    assert [(one.label, one.weight, one.threshold) for one in members] == [
        ("math/test", 1.0, 0.9),
        ("maze/test", 0.5, 0.25),
    ]
    page = client.get("/suites/core/edit/").content.decode()
    assert 'value="0.25"' in page and "Publish v2" in page
    assert client.post("/suites/core/edit/", form((math, "1")))["Location"] == "/suites/core/v2/"
    assert Suite.objects.get().author == "ada"


def test_a_new_description_alone_makes_no_version() -> None:
    client, math = client_of("curator"), split_of("math", 2)
    make_suite(member(math))
    answer = client.post("/suites/core/edit/", form((math, "1")))
    assert answer.status_code == 400 and "Nothing has changed since v1" in answer.content.decode()
    assert (
        client.post("/suites/core/edit/", form((math, "1"), description="New."))["Location"]
        == "/suites/core/v1/"
    )
    assert Suite.objects.get().description == "New."


def test_what_is_wrong_in_the_form_is_said_beside_it() -> None:
    client, math = client_of("curator"), split_of("math", 2)
    for sent, words in (
        (form((math, "heavy")), "Enter a number."),
        (form((math, "-1")), "it must be above 0"),
        (form((math, "1"), name="a b"), "letters, digits"),
        (form(), "1 to 20 members; this one has 0"),
    ):
        answer = client.post("/suites/new/", sent)
        assert answer.status_code == 400 and words in answer.content.decode()
    more = client.post("/suites/new/", form((math, "1"), more="1")).content.decode()
    assert "Member 9" in more and "Member 10" not in more and not Suite.objects.exists()


@pytest.mark.parametrize("path", ["new/", "core/edit/"])
def test_only_curators_publish(path: str) -> None:
    core()
    client = client_of("player")
    assert client.get(f"/suites/{path}").status_code == 403
    assert "New suite" not in client.get("/suites/").content.decode()
    assert client.get("/suites/core/").status_code == 200


def test_operators_delete_a_suite_in_the_admin() -> None:
    core()
    curator = client_of("curator")
    assert "Delete" not in curator.get("/admin/episodes/suite/").content.decode()
    assert curator.post("/admin/episodes/suite/1/delete/").status_code in (302, 403)
    client, pk = client_of("operator", name="eve"), Suite.objects.get().pk
    assert (
        f"/admin/episodes/suite/{pk}/delete/"
        in client.get("/admin/episodes/suite/").content.decode()
    )
    assert (
        "published can&#x27;t be looked up"
        in client.get(f"/admin/episodes/suite/{pk}/delete/").content.decode()
    )
    client.post(f"/admin/episodes/suite/{pk}/delete/", {"post": "yes"})
    assert not Suite.objects.exists()


def test_a_suite_whose_tasks_a_study_has_is_not_deleted() -> None:
    version = core()
    member = version.members.first()
    assert member is not None
    Study.objects.create(
        name="humans", environment=member.split.environment, member=member, author="ada"
    )
    path = f"/admin/episodes/suite/{version.suite_id}/delete/"
    client = client_of("operator")
    assert "study humans" in client.get(path).content.decode()
    assert "study humans" in client.post(path, {"post": "yes"}).content.decode()
    assert Suite.objects.exists()


def test_it_takes_few_queries(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    core()
    client.get("/")  # the first visit makes the account of the operator
    with django_assert_max_num_queries(10):
        client.get("/suites/core/")
    make_suite(member(split_of("chess", 1)), name="other", score="return")
    with django_assert_max_num_queries(11):
        client.get("/suites/")


def test_a_suite_with_tasks_of_a_training_split_is_published_only_once_that_was_read(
    client: Client,
) -> None:
    split = split_of("math", 3)
    Split.objects.filter(pk=split.pk).update(type="test")
    other = make_split(
        *(entry.task for entry in split.entries.all()), name="other", environment=split.environment
    )
    sent = form((split, "1"))
    page = client.post("/suites/new/", sent)
    assert page.status_code == 400 and not Suite.objects.exists()
    text = page.content.decode()
    assert (
        "math/test: 3 tasks are also in the train split &#x27;other&#x27;" in text
        and "Publish v1 anyway" in text
    )
    seen = re.search(r'name="seen" value="(\w+)"', text)
    assert seen and client.post("/suites/new/", {**sent, "seen": seen[1]}).status_code == 302
    Split.objects.filter(pk=other.pk).update(type="test")
    both = client.post(
        "/suites/new/", form((split, "1"), (other, "1"), name="both", seen=seen[1])
    ).content.decode()
    assert "3 tasks are both in math/test and in math/other, and so count twice." in both
