"""Writing notes and flags as an account and as a guest, and how pages show them."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from environments.models import Task
from environments.tasks.flags import flag, flags_of, settle
from episodes.models import Episode, Guest, Invite, Note, Play
from episodes.transcript.notes import add_note
from tests.people import member
from tests.rows import each
from tests.stored import make_episode, make_step, make_task

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


def person(name: str) -> Client:
    client = Client()
    client.force_login(member("player", name=name))
    return client


def guest_of(episode: Episode, name: str = "Bo") -> Client:
    """Return a guest who plays `episode`."""
    expires = timezone.now() + timedelta(days=1)
    invite = Invite.objects.create(
        token_hash=name, name=name, environment=episode.environment, expires=expires
    )
    guest = Guest.objects.create(invite=invite, name=name)
    Play.objects.create(episode=episode, guest=guest)
    client = Client()
    session = client.session
    session["guest"] = guest.pk
    session.save()
    return client


def noted(client: Client, episode: Episode, **form: object) -> HttpResponse:
    return client.post(f"/play/notes/{episode.pk}/", form, headers=HTMX)


def flagged(client: Client, task: Task, **form: object) -> HttpResponse:
    return client.post(f"/play/flag/{task.pk}/", form, headers=HTMX)


# --- notes ----------------------------------------------------------------------------------------


def test_the_replay_shows_a_note_with_its_author_and_step() -> None:
    episode = make_episode()
    make_step(episode)
    page = noted(person("ada"), episode, text="Look <here>", step="0").content.decode()
    assert "Look &lt;here&gt;" in page and "ada" in page and 'data-step="0"' in page
    replay = person("bob").get(f"/episodes/{episode.pk}/").content.decode()
    assert "Look &lt;here&gt;" in replay and 'href="#step-0">step 0</a>' in replay


def test_only_the_author_is_offered_to_delete_it() -> None:
    episode = make_episode()
    ada = person("ada")
    noted(ada, episode, text="mine")
    assert "note-delete" in ada.get(f"/episodes/{episode.pk}/").content.decode()
    bob = person("bob")
    assert "note-delete" not in bob.get(f"/episodes/{episode.pk}/").content.decode()
    assert (
        "another person wrote it"
        in noted(bob, episode, delete=Note.objects.get().pk).content.decode()
    )
    assert "No notes yet." in noted(ada, episode, delete=Note.objects.get().pk).content.decode()


def test_a_bad_note_is_explained_at_its_form() -> None:
    answer = noted(person("ada"), make_episode(), text=" ")
    assert answer.status_code == 200 and "data-problem" in answer.content.decode()


def test_without_scripts_a_note_redirects_to_the_replay_or_shows_an_error() -> None:
    episode, ada = make_episode(), person("ada")
    answer = ada.post(f"/play/notes/{episode.pk}/", {"text": "fine"})
    assert answer["Location"] == f"/episodes/{episode.pk}/#notes"
    refused = ada.post(f"/play/notes/{episode.pk}/", {"text": "fine", "step": "7"})
    assert refused.status_code == 422 and "has no step" in refused.content.decode()


def test_a_guest_notes_only_own_plays_and_reads_only_own_notes() -> None:
    episode = make_episode()
    bo = guest_of(episode)
    add_note(episode, "ada", "for curators")
    page = noted(bo, episode, text="hard").content.decode()
    assert "hard" in page and "for curators" not in page and "Bo (guest" in page
    assert noted(bo, make_episode(), text="hard").status_code == 404


@pytest.mark.parametrize("number", [1, 2**63, 10**30])
def test_an_unknown_episode_takes_no_notes(client: Client, number: int) -> None:
    assert client.post(f"/play/notes/{number}/", {"text": "x"}).status_code == 404


# --- flags ----------------------------------------------------------------------------------------


def test_a_flag_is_queued_with_its_episode_and_shown_on_the_tasks_pages() -> None:
    episode, ada = make_episode(), person("ada")
    page = flagged(
        ada, episode.task, note="The answer is <wrong>.", episode=episode.pk
    ).content.decode()
    assert "a curator will review it" in page
    [waiting] = flags_of(episode.task).open
    assert (waiting.author, waiting.episode) == ("ada", episode.pk)
    for address in (f"/tasks/{episode.task_id}/", f"/episodes/{episode.pk}/"):
        assert "The answer is &lt;wrong&gt;." in ada.get(address).content.decode()
    settle(episode.task, "eve")
    assert "lt;wrong" not in ada.get(f"/tasks/{episode.task_id}/").content.decode()


def test_a_refused_flag_keeps_its_text() -> None:
    task, ada = make_task(), person("ada")
    assert "Say what is wrong" in flagged(ada, task, note=" ").content.decode()
    page = flagged(ada, task, note="x" * 2_001).content.decode()
    assert "at most 2,000 fit" in page and "x" * 2_001 in page
    assert not flags_of(task).open


@each("episode", ["", "x", "999999", "9" * 40])
def test_an_unknown_episode_is_left_out_of_a_flag(client: Client, episode: str) -> None:
    task = make_task()
    flagged(client, task, note="Wrong.", episode=episode)
    assert flags_of(task).open[0].episode is None


def test_an_episode_of_another_task_is_left_out_of_a_flag(client: Client) -> None:
    task = make_task()
    flagged(client, task, note="Wrong.", episode=make_episode().pk)
    assert flags_of(task).open[0].episode is None


def test_without_scripts_a_page_shows_the_result(client: Client) -> None:
    task = make_task()
    page = client.post(f"/play/flag/{task.pk}/", {"note": "Wrong."}).content.decode()
    assert "Flagged as broken" in page and f'href="/tasks/{task.pk}/"' in page
    refused = client.post(f"/play/flag/{task.pk}/", {"note": ""})
    assert refused.status_code == 422 and "Say what is wrong" in refused.content.decode()


def test_a_guest_flags_only_own_plays_and_reads_only_own_flags() -> None:
    episode = make_episode()
    bo = guest_of(episode)
    flag(episode.task, "ada", "known already")
    page = flagged(bo, episode.task, note="I think so", episode=episode.pk).content.decode()
    assert "I think so" in page and "known already" not in page
    assert flagged(bo, make_task(), note="I think so").status_code == 404
    assert [row.author for row in flags_of(episode.task).open] == [
        "ada",
        f"Bo (guest {Guest.objects.get().pk})",
    ]


def words_of(page: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", page).split())


def test_a_guest_reports_a_problem_in_plain_words() -> None:
    episode = make_episode()
    bo = guest_of(episode)
    page = bo.get(f"/play/{episode.pk}/").content.decode()
    report = page.partition('<details class="side-part report">')[2].partition("</section>")[0]
    sent = flagged(bo, episode.task, note="No wind.", episode=episode.pk).content.decode()
    refused = flagged(bo, episode.task, note=" ", episode=episode.pk).content.decode()
    unscripted = bo.post(f"/play/flag/{episode.task.pk}/", {"note": "No wind."}).content.decode()
    assert "Report a problem with this task" in report and "the whole task" in report
    assert "You reported a problem" in sent and "thank you, somebody will look at it" in sent
    assert "Say what is wrong with the task." in refused and "Your report was sent" in unscripted
    for text in (report, sent, refused, unscripted):
        assert not re.search(r"(?i)\b(flag\w*|episode|curator\w*)\b", words_of(text)), words_of(
            text
        )


@pytest.mark.parametrize("number", [1, 2**63, 10**30])
def test_an_unknown_task_is_not_flagged(client: Client, number: int) -> None:
    assert flagged(client, Task(pk=number), note="Wrong.").status_code == 404
