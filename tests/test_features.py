"""The core without a feature: its pages and its JSON work, and nothing leads to the feature."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import clear_url_caches
from django.utils import timezone

import episodes.urls.api
import episodes.urls.pages
import orsweb.urls
from environments.features import features
from episodes.api import openapi
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Rollout
from orsweb.pages.admin_look import sidebar
from orsweb.templatetags import frame
from tests.episodes.ended import end_episode
from tests.people import client_of
from tests.stored import make_environment, make_run

pytestmark = pytest.mark.django_db

FEATURES = {
    "episodes.doctor": ["environments/maths/doctor/", "api/environments/maths/doctor"],
    "episodes.suites": ["suites/", "suites/new/", "api/suites"],
    "episodes.transfer": ["episodes/export", "rollouts/export", "api/episodes/export"],
}
"""Addresses of each feature."""
FILTERS = {"episodes.suites": ["suite"]}
"""Parameters that a feature adds to the filter of episodes."""
CORE = [
    "",
    "environments/",
    "environments/maths/",
    "episodes/",
    "episodes/{episode}/",
    "rollouts/",
    "rollouts/{rollout}/",
    "runs/",
    "runs/{run}/",
    "admin/",
    "api/environments",
    "api/schema",
]


@pytest.fixture
def client(feature: str) -> Iterator[Client]:
    """The client of an operator on a server without the feature."""
    everything = settings.FEATURES
    settings.FEATURES = [folder for folder in everything if folder != feature]
    _read_again()
    try:
        yield client_of("operator")
    finally:
        settings.FEATURES = everything
        _read_again()


def _read_again() -> None:
    for reader in (
        features,
        EpisodeFilter.parameters,
        sidebar,
        openapi.document,
        frame._menu,
        frame._rail,
        frame._page_url,
        frame._keyboard_shortcuts,
    ):
        reader.cache_clear()
    for module in (episodes.urls.api, episodes.urls.pages, orsweb.urls):
        importlib.reload(module)
    clear_url_caches()


def test_every_feature_is_tried() -> None:
    assert list(FEATURES) == settings.FEATURES


@pytest.mark.parametrize("feature", FEATURES)
def test_the_core_works_without_it(feature: str, client: Client) -> None:
    run = make_run("tiny")
    episode = end_episode(run=run, environment=make_environment("maths"))
    rollout = Rollout.objects.create(event_id="1", episode=episode, received=timezone.now())
    rows = {"run": run.pk, "episode": episode.pk, "rollout": rollout.event_id}
    for address in CORE:
        answer: Any = client.get("/" + address.format(**rows))
        assert answer.status_code == 200, address
        assert not any(f"/{own}" in answer.content.decode() for own in FEATURES[feature]), address
    assert {client.get(f"/{own}", follow=True).status_code for own in FEATURES[feature]} == {404}
    for name in FILTERS.get(feature, []):
        answer = client.get(f"/api/episodes?{name}=core/v1")
        assert "no filter has that name" in answer.json()["detail"], name
