"""Tests of invalid addresses: every page names the value, what is allowed and the nearest name."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.rows import each
from tests.stored import make_episode, make_run

pytestmark = pytest.mark.django_db

WHOLE = "it has to be a whole number of at least 0"
RETURNS = "sum, last, max, mean"


def address(path: str) -> str:
    """Return `path` with the numbers of an episode, its task and its run filled in."""
    episode = make_episode(run=make_run(), run_step=1)
    other = make_episode(task=episode.task)
    numbers = {
        "episode": episode.pk,
        "other": other.pk,
        "task": episode.task_id,
        "run": episode.run_id,
    }
    return path.format(**numbers)


@each(
    ("path", "sentence"),
    [
        ("/?foo=1", "no parameter has that name. The parameters are span, part, return"),
        ("/?spam=24h", "Did you mean &#x27;span&#x27;?"),
        ("/environments/math/?treshold=1", "Did you mean &#x27;threshold&#x27;?"),
        ("/environments/math/leaderboard/?splt=train", "Did you mean &#x27;split&#x27;?"),
        ("/episodes/?enviroment=math", "Did you mean &#x27;environment&#x27;?"),
        ("/episodes/?page=2", "no filter has that name"),
        ("/episodes/export?format=csv&formt=csv", "Did you mean &#x27;format&#x27;?"),
        ("/episodes/{episode}/?stp=3", "Did you mean &#x27;step&#x27;?"),
        (
            "/runs/?page=2",
            "state, tag, config, columns, pin, hide, group, text, failed, sort, after, format",
        ),
        ("/runs/{run}/?model=m", "no parameter has that name"),
        ("/runs/curves/?page=2", "no filter has that name"),
        ("/compare/?episode={episode},{other}", "Did you mean &#x27;episodes&#x27;?"),
        ("/tasks/{task}/?page=2", "env_error, revision, before"),
        ("/tasks/{task}/group/?run={run}&steps=1", "Did you mean &#x27;step&#x27;?"),
    ],
)
def test_an_unknown_parameter_is_refused_with_the_nearest(
    client: Client, path: str, sentence: str
) -> None:
    response = client.get(address(path))
    assert response.status_code == 400 and sentence in response.content.decode()


@each(
    ("path", "sentence"),
    [
        ("/?span=2h", "allowed are 1h, 24h, 30d"),
        ("/?return=median", RETURNS),
        ("/episodes/{episode}/?step=foo", WHOLE),
        ("/episodes/{episode}/?step=-1", WHOLE),
        ("/episodes/{episode}/?return=median", RETURNS),
        ("/episodes/{episode}/headline/?return=median", RETURNS),
        ("/episodes/{episode}/steps/?first=x", WHOLE),
        ("/episodes/{episode}/rail.json?first=x", WHOLE),
        ("/compare/?episodes={episode},{other}&row=x", WHOLE),
        ("/compare/?runs={run},7&row=1", "it belongs to a comparison of episodes"),
        ("/runs/?after=x", WHOLE),
        ("/tasks/{task}/?before=x", "whole number"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_with_what_can(
    client: Client, path: str, sentence: str
) -> None:
    response = client.get(address(path))
    assert response.status_code == 400 and sentence in response.content.decode()


def test_the_refusal_leads_to_the_page_without_parameters(client: Client) -> None:
    assert (
        'href="/runs/">This page without parameters' in client.get("/runs/?page=2").content.decode()
    )
    assert client.get("/?span=&return=").status_code == 200
