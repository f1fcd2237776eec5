"""People redact in the admin, and the replay says that and by whom something was redacted."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from environments.database import background_jobs
from episodes.models import Redaction, Step
from episodes.redaction.replacement import redact
from tests.stored import make_episode, make_step

SECRET = "swordfish-0123"
ADDRESS = "/admin/episodes/redaction/add/"
pytestmark = pytest.mark.django_db(transaction=True)


def staff(*permissions: str) -> Client:
    """Return a browser in which somebody with these permissions on episodes is logged in."""
    user = User.objects.create_user("curator", password="x", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def step() -> Step:
    return make_step(make_episode(steps_count=1), SECRET)


def test_a_person_redacts_from_a_step(step: Step, settings: Any) -> None:
    settings.ORSWEB_API_KEYS = {"k": "k"}
    client = staff("view_episode", "add_redaction")
    replay = client.get(f"/episodes/{step.episode_id}/")
    address = f"{ADDRESS}?episode={step.episode_id}&amp;step=0"
    assert address in replay.text
    assert client.get(address.replace("&amp;", "&")).status_code == 200
    answer = client.post(ADDRESS, {"text": SECRET, "reason": "leaked", "do": "redact"})
    job = background_jobs.get(answer.headers["Location"].split("/")[-2])
    assert job is not None and job.wait(30) and job.state == "done", job
    assert job.sentence.startswith("Replaced in 1 step")
    shown = client.get(f"/episodes/{step.episode_id}/").text
    assert SECRET not in shown
    assert "curator replaced a text" in shown and ": leaked" in shown


def test_finding_changes_nothing(step: Step, settings: Any) -> None:
    settings.ORSWEB_API_KEYS = {"k": "k"}
    answer = staff("add_redaction").post(ADDRESS, {"text": SECRET, "do": "preview"})
    job = background_jobs.get(answer.headers["Location"].split("/")[-2])
    assert job is not None and job.wait(30) and job.sentence.startswith("Found in 1 step")
    assert SECRET not in answer.headers["Location"]
    assert SECRET in Step.objects.get().output


def test_others_may_not_redact(step: Step, settings: Any) -> None:
    settings.ORSWEB_API_KEYS = {"k": "k"}
    client = staff("view_redaction")
    assert "Redact text" not in client.get(f"/episodes/{step.episode_id}/").text
    assert client.get(ADDRESS).status_code == 403
    assert client.post(ADDRESS, {"text": SECRET, "do": "redact"}).status_code == 403
    assert SECRET in Step.objects.get().output


def test_the_list_and_the_page_of_a_redaction_say_what_was_done(step: Step) -> None:
    redact(SECRET, "alice", "leaked")
    client = staff("view_redaction")
    assert "leaked" in client.get("/admin/episodes/redaction/").text
    page = client.get(f"/admin/episodes/redaction/{Redaction.objects.get().pk}/change/").text
    assert "alice" in page and f"Episode {step.episode_id}" in page


def test_a_short_text_is_refused_on_the_form(step: Step) -> None:
    answer = staff("add_redaction").post(ADDRESS, {"text": "abc", "do": "redact"})
    assert answer.status_code == 422
    assert "The text has 3 characters; 4 to 65,536 can be redacted." in answer.text
