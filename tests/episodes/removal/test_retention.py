"""Episodes go when the retention period of their run, of their environment, or of all is over."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone
from pytest_django import Settings

from environments.models import Environment
from episodes.models import Episode, Removal, Retention
from episodes.recording.recorder import Recorder
from episodes.removal.retention import remove_expired
from tests.episodes.ended import end_episode
from tests.episodes.recorded import query, run
from tests.stored import make_environment, make_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]
DEADLINE_SECONDS = 60.0


def ended(days: float, environment: Environment, name: str = "") -> Episode:
    moment = timezone.now() - timedelta(days=days)
    values = {"run": make_run(name)} if name else {}
    return end_episode(environment=environment, created=moment, ended=moment, **values)


def left() -> set[int]:
    while remove_expired(None):
        pass
    return set(Episode.objects.values_list("pk", flat=True))


def test_an_environments_episodes_go_after_its_days() -> None:
    math, code = make_environment("math"), make_environment("code")
    Retention.objects.create(environment=math, days=30)
    _old, young, other = ended(31, math), ended(29, math), ended(300, code)
    assert left() == {young.pk, other.pk}


def test_the_period_of_a_run_takes_precedence() -> None:
    math = make_environment("math")
    Retention.objects.create(environment=math, days=30)
    Retention.objects.create(run=make_run("keep"), days=None)
    Retention.objects.create(run=make_run("short"), days=1)
    kept, _short, _old = ended(99, math, "keep"), ended(2, math, "short"), ended(99, math, "other")
    assert left() == {kept.pk}


def test_a_day_of_retention_is_one_row_of_the_log() -> None:
    math = make_environment("math")
    Retention.objects.create(environment=math, days=30)
    ended(31, math)
    left()
    ended(32, math)
    left()
    assert list(Removal.objects.values_list("author", "episodes")) == [("retention", 2)]


def test_a_period_belongs_to_an_environment_or_a_run() -> None:
    for values in ({}, {"environment": make_environment(), "run": make_run()}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Retention.objects.create(days=1, **values)


def test_the_upkeep_of_a_server_applies_the_period_of_all(settings: Settings) -> None:
    settings.ORSWEB_RETENTION_DAYS = 30
    math = make_environment("math")
    _old, young = ended(31, math), ended(29, math)

    async def wait(recorder: Recorder) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await query(Episode.objects.count) > 1:
                pass

    run(wait, has_duties=True)
    assert Episode.objects.get() == young
