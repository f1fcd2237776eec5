"""Setting up a study, its links, and its results, as the people who run it do."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from environments.models import Environment, Split, SplitEntry
from episodes.models import DealtTask, Episode, Guest, Invite, Play, Study, SuiteTask
from tests.episodes.people.studies.taking_part import link_of, study_of
from tests.episodes.suites.published import core, split_of
from tests.people import client_of
from tests.rows import each
from tests.stored import make_episode, make_split

pytestmark = pytest.mark.django_db


def form(tasks: str, **changes: str) -> dict[str, str]:
    return {"name": "pilot", "tasks": tasks, "attempts": "1", "pause_minutes": "30", **changes}


def tasks_of(study: Study) -> list[int]:
    return list(
        SuiteTask.objects.filter(member=study.member)
        .order_by("position")
        .values_list("task", flat=True)
    )


@pytest.fixture
def pilot() -> Study:
    return study_of(split_of("math", 2))


@pytest.fixture
def curator() -> Client:
    return client_of("curator", "operator")


def test_a_study_freezes_the_chosen_tasks_of_a_split_as_a_suite(curator: Client) -> None:
    split = split_of("math", 10)
    ids = list(
        SplitEntry.objects.filter(split=split).order_by("position").values_list("task", flat=True)
    )
    sent = form(f"split/{split.pk}", numbers="7, 0-2", consent="I agree.", people_per_task="3")
    assert curator.post("/play/studies/new/", sent)["Location"] == "/play/studies/pilot/"
    study = Study.objects.get()
    assert tasks_of(study) == [*ids[:3], ids[7]] and study.member.version.suite.name == "pilot"
    assert (study.people_per_task, study.consent, study.author) == (3, "I agree.", "ada")
    assert study.pause_seconds == 1800
    page = curator.get("/play/studies/pilot/").content.decode()
    assert "4 tasks of" in page and "3 people per task" in page
    assert "pilot" in curator.get("/play/studies/").content.decode()


def test_a_filter_and_a_draw_choose_tasks(curator: Client) -> None:
    split = split_of("math", 20)
    text = SplitEntry.objects.select_related("task").filter(split=split)[3].task.spec
    curator.post("/play/studies/new/", form(f"split/{split.pk}", search=text[1:-1]))
    curator.post("/play/studies/new/", form(f"split/{split.pk}", name="drawn", at_random="5"))
    assert [len(tasks_of(one)) for one in Study.objects.order_by("pk")] == [1, 5]


def test_a_study_takes_the_tasks_of_a_suite(curator: Client) -> None:
    member = core().members.get(number=2)
    curator.post("/play/studies/new/", form(f"member/{member.pk}"))
    assert Study.objects.get().member == member


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "a b"}, "study&#x27;s name has 1 to 100 letters"),
        ({"name": "new"}, "is taken"),
        ({"numbers": "8-99"}, "There is no task 99; the split has tasks 0 to 3 now."),
        ({"numbers": "one"}, "&#x27;one&#x27; is no number or range of tasks"),
        ({"search": "nowhere"}, "meets all of these conditions"),
        ({"attempts": "0"}, "greater than or equal to 1"),
        (
            {"tasks_per_person": "2", "least_finished": "3"},
            "A person gets at most 2. Enter 2 or fewer.",
        ),
        (
            {"least_finished": "5"},
            "Nobody can finish 5 tasks of a study that has 4 tasks. Enter fewer.",
        ),
        ({"at_random": "5"}, "5 tasks can&#x27;t be drawn of 4. Draw fewer."),
        (
            {"completion_code": "\u200b"},
            "The code has characters that people can&#x27;t see or copy.",
        ),
        ({"completion_code": "A", "no_task_code": "A"}, "Another outcome has this code."),
        (
            {"completion_code": "Abc-1", "incomplete_code": "ABC1"},
            "Another outcome has this code. Only letters",
        ),
        ({"incomplete_code": "x\u00e9", "no_task_code": "XE"}, "Another outcome has this code."),
        ({"tasks": "split/999"}, "Select a valid choice"),
    ],
)
def test_a_faulty_form_says_what_is_allowed(
    curator: Client, changes: dict[str, str], words: str
) -> None:
    answer = curator.post("/play/studies/new/", form(f"split/{split_of('math', 4).pk}") | changes)
    assert answer.status_code == 422 and words in answer.content.decode()
    assert not Study.objects.exists()


def test_making_and_closing_studies_takes_the_permission_of_curators() -> None:
    study_of(split_of("math", 2))
    viewer = client_of("viewer", "player")
    assert viewer.get("/play/studies/pilot/").status_code == 404
    Study.objects.update(closed=timezone.now())
    assert viewer.get("/play/studies/pilot/").status_code == 200
    for path in ("new/", "pilot/links/", "pilot/close/", "pilot/people/1/exclude/"):
        answer = viewer.post(f"/play/studies/{path}")
        assert answer.status_code == 403 and "may not make studies" in answer.content.decode(), path


def test_personal_links_are_a_file_and_one_can_be_revoked(curator: Client) -> None:
    study_of(split_of("math", 2))
    answer = curator.post(
        "/play/studies/pilot/links/", {"kind": "personal", "names": "P01\nP02\n", "days": "3"}
    )
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert [row["name"] for row in rows] == ["P01", "P02"]
    [first, second] = [Client().get(row["link"].partition("testserver")[2]) for row in rows]
    assert (first["Location"], second["Location"]) == ("/play/study/", "/play/study/")
    invite = Invite.objects.get(name="P01")
    assert (
        curator.post(f"/play/studies/pilot/links/{invite.pk}/revoke/", {"confirm": "1"}).status_code
        == 302
    )
    assert Client().get(rows[0]["link"].partition("testserver")[2]).status_code == 410
    assert "link revoked" in curator.get("/play/studies/pilot/").content.decode()


def test_a_new_personal_link_of_a_name_goes_on_with_its_person(curator: Client) -> None:
    study_of(split_of("math", 2))
    form = {"kind": "personal", "names": "P01", "days": "3"}

    def made() -> str:
        rows = csv.DictReader(
            io.StringIO(curator.post("/play/studies/pilot/links/", form).content.decode())
        )
        return next(rows)["link"].partition("testserver")[2]

    lost = made()
    Client().get(lost)
    guest = Guest.objects.get()
    again = made()
    assert Client().get(lost).status_code == 410
    assert Client().get(again)["Location"] == "/play/study/"
    assert Guest.objects.get().pk == guest.pk


@each(
    "form",
    [
        *(
            {"kind": kind, "names": "P01", "days": "3"}
            for kind in ("", "Personal", "zzz", "shared")
        ),
        *({"kind": "shared", "days": days} for days in ("0", "366", "1.5", "x")),
    ],
)
def test_a_form_of_links_that_says_something_else_makes_none(
    curator: Client, pilot: Study, form: dict[str, str]
) -> None:
    answer = curator.post("/play/studies/pilot/links/", form)
    assert (answer.status_code, Invite.objects.count()) == (422, 0)


@each("reason", ["", " \t", "x" * 201, "\u200b", "\u2800", "a\0b"])
def test_a_reason_for_an_exclusion_can_be_read(curator: Client, pilot: Study, reason: str) -> None:
    guest = played(pilot).guest
    assert guest is not None
    answer = curator.post(f"/play/studies/pilot/people/{guest.pk}/exclude/", {"reason": reason})
    assert (answer.status_code, Guest.objects.filter(exclusion="").count()) == (
        422,
        Guest.objects.count(),
    )


@each("query", ["tasks=split/999", "tasks=zzz", "bucket=zzz", "numbers=1&numbers=2"])
def test_a_form_of_a_study_is_filled_in_with_what_it_offers(curator: Client, query: str) -> None:
    answer = curator.get(f"/play/studies/new/?{query}")
    assert (answer.status_code, "cannot be used: " in answer.content.decode()) == (400, True)


@each(
    "names",
    [
        *(
            "P01\nP0 1",
            "P01\nP.01",
            "P-01\nP_01",
            "P01\np0\u30001",
            "P01\nP^01",
            "P01\nP+01",
            "P01\n P01\u20ac",
            "1\n-1",
        ),
        *(
            "1.1\n1-1",
            "1.1\n1 + 1",
            "P01\n\u0420\u0660\u0661",
            "P01\n\uff30\uff10\uff11",
            "P01\n\u03a1\u0966\u0967",
            "P01\nP01\u02bc",
        ),
        *("P01\n\u24c5\u24ea\u2776", "P01\nP01\u0903", "ada\n\u0430\u0501\u0430", "P1\nP\u00b9"),
        *("P0\t1", "P0\x0b1", "P0\u20281", "P0\u28001", "P0\x1f1"),
    ],
)
def test_personal_links_are_for_names_that_differ_and_can_be_seen(
    curator: Client, pilot: Study, names: str
) -> None:
    answer = send_names(curator, names)
    text = answer.content.decode()
    assert answer.status_code == 422 and (
        "are the same name" in text or "can&#x27;t be seen" in text
    )


@each(
    "names",
    [
        "1.1\n11",
        "P01\nP10",
        "\u0930\u093e\u092e\n\u0930\u092e\u093e",
        "\u738b\u4e00\n\u738b\u4e8c",
        "\u30ab\u30fc\n\u30ab",
    ],
)
def test_other_letters_and_digits_are_other_names(
    curator: Client, pilot: Study, names: str
) -> None:
    Invite.objects.all().delete()
    assert (send_names(curator, names).status_code, Invite.objects.count()) == (200, 2)


def test_a_list_names_nobody_as_an_earlier_one_in_another_spelling(
    curator: Client, pilot: Study
) -> None:
    assert [send_names(curator, names).status_code for names in ("1\n2", "3\n1", "4\n-1")] == [
        200,
        200,
        422,
    ]
    text = unescape(send_names(curator, "-1").content.decode())
    assert "'-1' is the same name as '1', which has a personal link." in text
    assert Invite.objects.filter(revoked=None).count() == 3


def send_names(curator: Client, names: str) -> Any:
    return curator.post(
        "/play/studies/pilot/links/", {"kind": "personal", "names": names, "days": "3"}
    )


def test_who_has_a_name_that_none_can_have_now_stays_who_they_are(curator: Client) -> None:
    study = study_of(split_of("math", 2), completion_code="DONE")
    people = {name: link_of(study, name, is_personal=True) for name in ("P01", "P0 1", "P0\t1")}
    for name, link in people.items():
        browser = Client()
        browser.get(link)
        Guest.objects.filter(name=name).update(consented=timezone.now())
        for task in SuiteTask.objects.filter(member=study.member):
            DealtTask.objects.create(
                study=study, guest=Guest.objects.get(name=name), task=task.task
            )
            episode = make_episode(task=task.task, player="human")
            Play.objects.create(
                episode=episode, guest=Guest.objects.get(name=name), counts_left=False
            )
        assert "DONE" in browser.get("/play/study/").content.decode(), name
    rows = csv.DictReader(
        io.StringIO(curator.get("/play/studies/pilot/results.csv").content.decode())
    )
    assert sorted({row["person"] for row in rows}) == sorted(people)
    curator.post("/play/studies/pilot/links/", {"kind": "personal", "names": "P0 1", "days": "3"})
    ended = Invite.objects.exclude(revoked=None).values_list("name", flat=True)
    assert ([*ended], Guest.objects.count()) == (["P0 1"], 3)


def test_the_link_for_everybody_is_shown_once(curator: Client) -> None:
    study_of(split_of("math", 2))
    page = curator.post("/play/studies/pilot/links/", {"kind": "shared", "days": "30"})
    assert page.status_code == 201 and "http://testserver/play/invite/" in page.content.decode()
    assert "/play/invite/" not in curator.get("/play/studies/pilot/").content.decode()
    assert curator.get("/play/invites/").content.decode().count("link for everybody") == 0


def test_the_page_of_a_study_shows_what_its_guests_read(curator: Client) -> None:
    study_of(
        split_of("math", 2),
        instructions="Work *alone*.",
        consent="I am an adult.",
        completion_code="<C0DE>",
    )
    page = curator.get("/play/studies/pilot/").content.decode()
    assert "Work <em>alone</em>." in page and "I am an adult." in page and "&lt;C0DE&gt;" in page


def test_closing_a_study_ends_its_links(curator: Client) -> None:
    path = link_of(study_of(split_of("math", 2)))
    assert Client().get(path).status_code == 200
    curator.post("/play/studies/pilot/close/", {"confirm": "1"})
    assert Client().get(path).status_code == 410
    answer = curator.post("/play/studies/pilot/links/", {"kind": "shared", "days": "1"})
    assert answer.status_code == 422 and "The study is closed" in answer.content.decode()


def played(study: Study, **values: Any) -> Play:
    task = SuiteTask.objects.filter(member=study.member).order_by("position")[0].task
    count = Guest.objects.count()
    facts = {"study": study, "token_hash": str(count), "name": "all", "expires": timezone.now()}
    invite = Invite.objects.create(environment=study.environment, **facts)
    guest = Guest.objects.create(invite=invite, name="Zoë", consented=timezone.now())
    episode = make_episode(task=task, player="human", key_label=guest.label, **values)
    DealtTask.objects.create(study=study, guest=guest, task=task)
    return Play.objects.create(episode=episode, guest=guest)


def test_results_are_on_the_page_and_in_lists(curator: Client) -> None:
    study = study_of(split_of("math", 2))
    played(study, return_sum=1.0, duration_seconds=30.0)
    played(study, status="running", cause="")
    make_episode(environment=study.environment, player="human")
    page = curator.get("/play/studies/pilot/").content.decode()
    assert (
        "task 1</a>" in page
        and "of 1 played" in page
        and "30" in page
        and "</progress> 1 of 2<" in page
    )
    assert curator.get("/episodes/?study=pilot").context["page"].matches == 2
    assert "No study is named" in curator.get("/episodes/?study=pilo").content.decode()
    assert curator.get("/episodes/?study=pilot&player=agent").status_code == 400


def test_a_person_is_excluded_with_a_reason(curator: Client) -> None:
    study = study_of(split_of("math", 2))
    guest = played(study, return_sum=1.0).guest
    assert guest is not None
    address = f"/play/studies/pilot/people/{guest.pk}/exclude/"
    for reason in ("", "  ", "x" * 201):
        answer = curator.post(address, {"reason": reason})
        assert answer.status_code == 422 and "Enter why Zoë is excluded" in answer.content.decode()
    assert curator.post(address, {"reason": " a <b>bot</b> "}).status_code == 302
    page = curator.get("/play/studies/pilot/").content.decode()
    assert (
        'title="a &lt;b&gt;bot&lt;/b&gt; (ada), ' in page
        and "of 1 played" in page
        and ">excluded<" in page
    )
    [link] = re.findall(
        'Excluded: <a href="([^"]*)">1 episode of Zo\u00eb</a> \\(a &lt;b&gt;bot&lt;/b&gt; '
        "\\(ada\\)\\)",
        page,
    )
    assert (
        f'href="/episodes/{Episode.objects.get().pk}/"'
        in curator.get(unescape(link)).content.decode()
    )
    [line] = csv.DictReader(
        io.StringIO(curator.get("/play/studies/pilot/results.csv").content.decode())
    )
    assert (line["counts"], line["excluded"]) == ("no", "a <b>bot</b> (ada)")
    assert ">excluded</span>" in curator.get("/episodes/?study=pilot").content.decode()
    curator.post(address, {"include": "on"})
    [line] = csv.DictReader(
        io.StringIO(curator.get("/play/studies/pilot/results.csv").content.decode())
    )
    assert (line["counts"], line["excluded"]) == ("yes", "")
    for path in ("pilot/people/99999/exclude/", "other/people/1/exclude/"):
        assert curator.post(f"/play/studies/{path}", {"reason": "x"}).status_code == 404


@pytest.mark.parametrize(
    ("limit", "pause", "seconds"), [("", "", 3600), ("5", "", 0), ("5", "10", 600), ("", "0", 0)]
)
def test_a_study_with_a_time_limit_has_no_pause_unless_it_says_so(
    curator: Client, limit: str, pause: str, seconds: int
) -> None:
    sent = form(f"split/{split_of('math', 2).pk}", limit_minutes=limit, pause_minutes=pause)
    assert curator.post("/play/studies/new/", sent).status_code == 302
    assert Study.objects.get().pause_seconds == seconds


def test_a_link_is_revoked_after_a_question(curator: Client) -> None:
    study = study_of(split_of("math", 2))
    link_of(study)
    Invite.objects.update(created=timezone.now() - timedelta(days=1))
    link_of(study)
    invite_of(study.environment)
    for path in ("/play/studies/pilot/", "/play/invites/"):
        page = curator.get(path).content.decode()
        for start in re.findall(r'<form[^>]*action="[^"]*/revoke/"', page):
            question = page.partition(start)[0].rpartition("<div")[2]
            assert "popover role" in question and "Revoke “" in question, path
        assert "/revoke/" in page
        buttons = re.findall(r"Revoke<span[^>]*>[^<]*", page)
        assert len(set(buttons)) == len(buttons)


def test_a_form_without_the_answer_is_asked_first(curator: Client) -> None:
    study = study_of(split_of("math", 2))
    link_of(study)
    invite_of(study.environment)
    of_study, invite = Invite.objects.exclude(study=None).get(), Invite.objects.get(study=None)
    for address, words in {
        f"/play/studies/pilot/links/{of_study.pk}/revoke/": f"Revoke “{of_study.name}”?",
        f"/play/invites/{invite.pk}/revoke/": "Revoke “ada”?",
        "/play/studies/pilot/close/": "Close this study?",
    }.items():
        page = curator.post(address).content.decode()
        assert words in page and 'name="confirm"' in page
    assert not Invite.objects.exclude(revoked=None).exists() and Study.objects.get().closed is None


def invite_of(environment: Environment) -> None:
    expires = timezone.now() + timedelta(days=1)
    Invite.objects.create(environment=environment, name="ada", token_hash="i", expires=expires)


def place_of(browser: Client, study: Study) -> str:
    """Return what the page says about where the newest person is now."""
    page = browser.get(f"/play/studies/{study.name}/").content.decode()
    cells = page.partition("study-table")[2].partition("<tbody>")[2].split("<td")
    return " ".join(re.sub("<[^>]*>", "", f"<td{cells[3]}").split())


@pytest.mark.parametrize(
    "values", [{}, {"people_per_task": 1}, {"tasks_per_person": 1}, {"is_shuffled": True}]
)
def test_the_page_says_where_each_person_is(curator: Client, values: dict[str, Any]) -> None:
    study = study_of(split_of("math", 2), **values)
    play = played(study, status="running", cause="")
    assert place_of(curator, study) == "task 1"
    Play.objects.update(paused_since=timezone.now())
    assert place_of(curator, study).startswith("task 1 paused ")
    Episode.objects.update(status="ended", cause="finished", is_probe=False)
    assert place_of(curator, study) == ("finished" if study.tasks_per_person else "between tasks")
    second = SuiteTask.objects.filter(member=study.member).order_by("position")[1].task
    DealtTask.objects.create(study=study, guest=play.guest, task=second)
    Play.objects.create(
        guest=play.guest, episode=make_episode(task=second, player="human", steps_count=1)
    )
    assert place_of(curator, study) == "finished"
    Episode.objects.filter(task=second).update(cause="abandoned")
    assert place_of(curator, study) == "finished 1 of 2"
    Guest.objects.update(consented=None)
    assert place_of(curator, study) == "reading the instructions"


def test_the_page_takes_as_few_queries_for_many_people_as_for_few(
    curator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    study = study_of(split_of("math", 2), people_per_task=3)
    for _ in range(2):
        played(study)
    with CaptureQueriesContext(connection) as few:
        curator.get("/play/studies/pilot/")
    for _ in range(5):
        played(study)
    with django_assert_num_queries(len(few)):
        curator.get("/play/studies/pilot/")


def test_a_study_of_a_private_environment_does_not_exist_for_others(curator: Client) -> None:
    study_of(split_of("math", 2))
    Environment.objects.update(is_private=True)
    stranger = client_of("curator", name="eve")
    assert stranger.get("/play/studies/pilot/").status_code == 404
    assert stranger.get("/play/studies/pilot/results.csv").status_code == 404
    assert "pilot" not in stranger.get("/play/studies/").content.decode()
    assert curator.get("/play/studies/pilot/").status_code == 200


def test_a_study_of_tasks_of_a_training_split_is_made_only_once_that_was_read(
    curator: Client,
) -> None:
    split = split_of("math", 3)
    Split.objects.filter(pk=split.pk).update(type="test")
    make_split(split.entries.all()[1].task, name="other", environment=split.environment)
    sent = form(f"split/{split.pk}", numbers="1, 2", at_random="1")
    page = curator.post("/play/studies/new/", sent).content.decode()
    assert (
        "1 task is also in the train split &#x27;other&#x27;" in page and not Study.objects.exists()
    )
    seen = re.search(r'name="seen" value="(\w+)"', page)
    assert (
        seen
        and curator.post("/play/studies/new/", {**sent, "seen": seen[1]})["Location"]
        == "/play/studies/pilot/"
    )
