"""The core without a feature: its pages and its JSON work, and nothing leads to the feature."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client, override_settings
from django.urls import Resolver404, clear_url_caches, resolve
from django.utils import timezone

import episodes.urls.api
import episodes.urls.pages
import orsweb.agent_urls
import orsweb.urls
from environments.features import features, upkeep, url_patterns
from episodes.api import openapi
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Rollout
from orsweb.pages import admin_look
from orsweb.templatetags import frame
from tests.episodes.ended import end_episode
from tests.people import client_of
from tests.stored import make_environment, make_run, make_split, make_task

pytestmark = pytest.mark.django_db

FEATURES = {
    "episodes.doctor": ["environments/maths/doctor/", "api/environments/maths/doctor"],
    "episodes.people": ["play/", "play/studies/", "play/invites/", "play/notes/1/"],
    "episodes.platform_api": [],
    "episodes.suites": ["suites/", "suites/new/", "api/suites"],
    "episodes.transfer": ["episodes/export", "conversations/export", "api/episodes/export"],
}
"""Addresses of each feature."""
AGENTS = {"episodes.platform_api": ["v1/rollouts", "v1/environments"]}
"""Addresses of a feature for agents."""
FILTERS = {"episodes.suites": ["suite"]}
"""Parameters that a feature adds to the filter of episodes."""
CORE = [
    "",
    "environments/",
    "environments/maths/",
    "environments/maths/leaderboard/?tasks=shared",
    "tasks/{task}/",
    "episodes/",
    "episodes/{episode}/",
    "conversations/",
    "conversations/{rollout}/",
    "runs/",
    "runs/{run}/",
    "admin/",
    "admin/environments/task/",
    "admin/environments/task/{task}/change/",
    "admin/environments/split/{split}/change/",
    "api/environments",
    "api/schema",
]


@pytest.fixture
def client(feature: str) -> Iterator[Client]:
    """The client of an operator on a server without the feature."""
    others = [folder for folder in settings.FEATURES if folder != feature]
    try:
        with override_settings(FEATURES=others, ORSWEB_API_KEYS={"lab": "0123456789"}):
            _read_again()
            yield client_of("operator")
    finally:
        _read_again()


def _read_again() -> None:
    for reader in (
        features,
        EpisodeFilter.parameters,
        admin_look.menu,
        openapi.document,
        frame._menu,
        frame._rail,
        frame._page_url,
        frame._keyboard_shortcuts,
    ):
        reader.cache_clear()
    for module in (episodes.urls.api, episodes.urls.pages, orsweb.urls, orsweb.agent_urls):
        importlib.reload(module)
    clear_url_caches()


def test_every_feature_is_tried() -> None:
    assert list(FEATURES) == settings.FEATURES


@pytest.mark.parametrize("feature", FEATURES)
def test_the_core_works_without_it(feature: str, client: Client) -> None:
    run, environment = make_run("tiny"), make_environment("maths")
    split = make_split(make_task(environment=environment), environment=environment)
    episode = end_episode(run=run, environment=environment)
    rollout = Rollout.objects.create(event_id="1", episode=episode, received=timezone.now())
    rows = {
        "run": run.pk,
        "task": episode.task_id,
        "episode": episode.pk,
        "split": split.pk,
        "rollout": rollout.event_id,
    }
    for address in CORE:
        answer: Any = client.get("/" + address.format(**rows))
        assert answer.status_code == 200, address
        assert not any(f"/{own}" in answer.content.decode() for own in FEATURES[feature]), address
    assert {client.get(f"/{own}", follow=True).status_code for own in FEATURES[feature]} <= {404}
    assert Client().get("/").status_code == 302, "nobody is logged in, so the login page opens"
    for address in AGENTS.get(feature, []):
        with pytest.raises(Resolver404):
            resolve(f"/{address}", "orsweb.agent_urls")
    modules = (*upkeep(), *(route.callback for route in url_patterns("sockets")))
    assert not [module for module in modules if module.__name__.startswith(feature)]
    for name in FILTERS.get(feature, []):
        answer = client.get(f"/api/episodes?{name}=core/v1")
        assert "no filter has that name" in answer.json()["detail"], name
