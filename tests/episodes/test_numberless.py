"""Figures say how many of their attempts had a reward that was not a number, and count huge returns
alike."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.test import Client

from environments.scoring.convention import STANDARD, Convention, Coverage, coverage_of
from environments.wire import NO_NUMBER
from episodes.models import Episode
from episodes.rollups.follower import catch_up
from tests.episodes.ended import count_statistics, end_episode
from tests.orsweb.pages.test_left_out import text_of
from tests.rows import each
from tests.stored import make_environment, make_run, make_split, make_task

pytestmark = pytest.mark.django_db

SENTENCE = "with a reward that was not a number"
NUMBERLESS = {"detail": f"Step 0: {NO_NUMBER}."}
PAGES = {
    "/runs/": 2,
    "/runs/{run}/": 2,
    "/runs/{run}/?return=last": 2,
    "/runs/{run}/groups/?step=1": 1,
    "/runs/curves/?by=run": 2,
    "/compare/?runs={run},{other}": 2,
    "/tasks/{task}/": 1,
    "/tasks/{task}/?return=last": 1,
    "/tasks/{task}/group/?run={run}&step=1": 1,
    "/environments/chess/": 2,
    "/environments/chess/leaderboard/?by=model": 2,
    "/environments/chess/leaderboard/?by=run&return=last": 2,
    "/episodes/{episode}/": 1,
    "/admin/environments/task/{task}/change/": 1,
}
"""Pages -> how many attempts of a figure on it had such a reward."""


@pytest.fixture
def places() -> dict[str, Any]:
    """Return the ids of two runs that attempted the same two tasks; the first has such an attempt at
    each."""
    chess = make_environment("chess")
    tasks = [make_task(environment=chess) for _ in range(2)]
    split = make_split(*tasks, name="train", environment=chess)
    run, other = make_run("grpo"), make_run("base")
    for task in tasks:
        place = {"environment": chess, "task": task, "split": split, "run_step": 1}
        end_episode(0.25, **place, run=run, model="tiny", **NUMBERLESS)
        end_episode(0.75, **place, run=run, model="tiny")
        end_episode(0.5, **place, run=other)
    count_statistics()
    catch_up()
    task = tasks[0].pk
    return {"run": run.pk, "other": other.pk, "task": task, "episode": Episode.objects.first()}


def test_every_page_with_figures_says_it(admin_client: Client, places: dict[str, Any]) -> None:
    pages = {
        path: admin_client.get(path.format(**{**places, "episode": places["episode"].pk}))
        for path in PAGES
    }
    assert {path: page.status_code for path, page in pages.items()} == dict.fromkeys(PAGES, 200)
    missing = [
        path for path, page in pages.items() if f"{PAGES[path]} {SENTENCE}" not in text_of(page)
    ]
    assert missing == []


def test_files_and_json_count_it(client: Client, places: dict[str, Any]) -> None:
    for path in (
        "/environments/chess/leaderboard/?by=run&format=csv",
        "/runs/curves/?by=run&x=step&format=csv",
    ):
        answer = client.get(path)
        assert f"2 {SENTENCE}" in answer["X-Coverage"]
        rows = csv.DictReader(io.StringIO(text_of(answer)))
        assert {row["rollouts_numberless"] for row in rows} == {"0", "2"}
    run = client.get(f"/api/runs/{places['run']}").json()
    task = client.get(f"/api/tasks/{places['task']}").json()
    assert run["figures"]["rollouts"]["numberless"] == 2
    assert task["statistics"]["rollouts"]["numberless"] == 1


@each(
    ("convention", "coverage"),
    [
        (STANDARD, Coverage(5, 5, {}, {}, {}, 3)),
        (Convention(expired="zero"), Coverage(5, 2, {"expired": 3}, {}, {}, 1)),
        (Convention(expired="out"), Coverage(5, 2, {}, {"expired": 3}, {}, 1)),
    ],
)
def test_an_expired_rollout_counts_by_the_convention(
    convention: Convention, coverage: Coverage
) -> None:
    kinds = {"finished": 1, "abandoned_nan": 1, "expired": 1, "expired_nan": 2}
    assert coverage_of(kinds, convention) == coverage


def test_every_mean_counts_huge_returns_alike(client: Client) -> None:
    task = make_task(environment=make_environment("chess"))
    for reward in (1e300, 0.0):
        episode = end_episode(reward, task=task, environment=task.environment, model="tiny")
    count_statistics()
    catch_up()
    words = 'title="5e+289; figures count returns beyond 1e+290 as that"'
    for path in (
        f"/tasks/{task.pk}/",
        f"/episodes/{episode.pk}/",
        "/environments/chess/leaderboard/",
    ):
        assert words in client.get(path).content.decode(), path
