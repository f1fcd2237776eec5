"""Jobs run long work on a thread while pages read its progress."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
from django.db import connections

from environments.curation.action import ActionOutcome
from environments.database import background_jobs
from environments.database.background_jobs import Progress
from environments.errors import OrsError
from environments.models import Environment

PATIENCE_SECONDS = 30


@dataclass
class Gate:
    """Work that reports its progress and then waits until the test lets it continue."""

    has_reported: threading.Event
    may_continue: threading.Event

    def __call__(self, progress: Progress) -> str:
        progress(1, 4)
        self.has_reported.set()
        assert self.may_continue.wait(PATIENCE_SECONDS)
        progress(4, 4)
        return "All four."


@pytest.fixture
def gate() -> Gate:
    return Gate(threading.Event(), threading.Event())


def test_it_shows_the_progress_of_the_work(gate: Gate) -> None:
    job = background_jobs.start("Count", gate, "ada")
    assert gate.has_reported.wait(PATIENCE_SECONDS)
    assert (job.state, job.done, job.total, job.share) == ("running", 1, 4, 0.25)
    gate.may_continue.set()
    assert job.wait(PATIENCE_SECONDS)
    assert (job.state, job.sentence, job.share) == ("done", "All four.", 1.0)


def test_it_stops_a_cancelled_job_at_its_next_progress(gate: Gate) -> None:
    job = background_jobs.start("Count", gate, "ada")
    job.cancel()
    gate.may_continue.set()
    assert job.wait(PATIENCE_SECONDS)
    assert (job.state, job.sentence) == ("cancelled", "Stopped.")


def test_it_shows_the_sentence_of_an_outcome() -> None:
    job = background_jobs.start(
        "Quarantine", lambda progress: ActionOutcome("Quarantined 2 tasks.", 2), "ada"
    )
    assert job.wait(PATIENCE_SECONDS)
    assert (job.sentence, job.result.changed) == ("Quarantined 2 tasks.", 2)


def refuse(progress: Progress) -> None:
    raise OrsError("The split is frozen; unfreeze it first.")


def crash(progress: Progress) -> None:
    raise KeyError("a secret")


def test_it_repeats_a_refusal_word_for_word() -> None:
    job = background_jobs.start("Move", refuse, "ada")
    assert job.wait(PATIENCE_SECONDS)
    assert (job.state, job.sentence) == ("failed", "The split is frozen; unfreeze it first.")


def test_it_shows_no_details_of_an_unexpected_error() -> None:
    job = background_jobs.start("Move", crash, "ada")
    assert job.wait(PATIENCE_SECONDS)
    assert job.state == "failed"
    assert "secret" not in job.sentence


def test_it_finds_a_job_by_its_id_and_lists_the_newest_first() -> None:
    first, second = (
        background_jobs.start("Nothing", lambda progress: None, "ada") for _ in range(2)
    )
    assert background_jobs.get(first.id) is first
    assert background_jobs.jobs()[:2] == [second, first]
    assert background_jobs.get("unknown") is None


def test_it_forgets_a_job_that_ended_an_hour_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    job = background_jobs.start("Nothing", lambda progress: None, "ada")
    assert job.wait(PATIENCE_SECONDS)
    monkeypatch.setattr(background_jobs, "RETENTION_SECONDS", -1.0)
    assert background_jobs.get(job.id) is None


@pytest.mark.django_db(transaction=True)
def test_it_has_a_database_connection_of_its_own() -> None:
    job = background_jobs.start(
        "Count", lambda progress: (connections["default"], Environment.objects.count()), "ada"
    )
    assert job.wait(PATIENCE_SECONDS)
    theirs, count = job.result
    assert (job.state, count) == ("done", 0)
    assert theirs is not connections["default"]
    assert theirs.connection is None  # it was closed with the job
