"""Figures of an empty set: every page, CSV file and JSON of things whose rollouts have no figure.

A model, a run, a task, a group, a member of a suite, a split, a study and an environment have only
rollouts that the convention leaves out, or that returned nothing, that still run, or that are
probes. Every figure of them is a dash on pages, an empty cell in CSV files and null in JSON.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from environments.models import Split, Task
from episodes.models import Episode
from episodes.rollups.follower import catch_up
from tests.episodes.ended import count_statistics, end_episode
from tests.episodes.people.studies.taking_part import study_of
from tests.episodes.people.studies.test_pages import played
from tests.episodes.suites.published import make_suite, member
from tests.orsweb.pages.test_pages import PAGES, address
from tests.stored import make_environment, make_run, make_split, make_step, make_task

pytestmark = pytest.mark.django_db

KINDS: dict[str, dict[str, Any]] = {
    "left-out": {"cause": "env_error"},
    "no-return": {},
    "running": {"status": "running", "cause": "", "ended": None, "end_number": None},
    "probe": {"cause": "abandoned", "is_probe": True, "steps_count": 0},
}
FIGURES = "y=return,success,length,errors,refused,tokens,deviation,flat,components"
QUERIES = {
    "environments/<str:name>/leaderboard/": (
        "by=run&format=csv",
        "by=player",
        "split=train&sort=success&return=last",
    ),
    "compare/": ("runs={run},{bare}", "runs={run},{bare}&format=csv", "episodes={episode},{first}"),
    "episodes/": ("run={kind}&sort=return",),
    "episodes/export": ("format=csv",),
    "runs/<id:pk>/": ("part=figures",),
    "runs/<id:pk>/groups/": ("split=train&environment={name}",),
    "runs/curves/": (
        f"by=run&x=step&{FIGURES}",
        f"by=player&x=time&{FIGURES}&format=csv",
        "runs={run},{bare}",
    ),
    "tasks/<id:pk>/": ("return=last",),
    "tasks/<id:pk>/group/": ("run={run}&step=1",),
    "suites/<str:name>/": ("by=run", "format=csv"),
}
API = (
    *(
        "episodes/{episode}",
        "environments",
        "environments/{name}",
        "tasks/{task}",
        "runs",
        "suites/of-{kind}?by=run",
    ),
    *("environments/{name}/leaderboard", "environments/{name}/doctor"),
    *("curves?run={kind}&x=step&component=*&tokens=yes", "compare?runs={run},{bare}"),
)
ADMIN = (
    *(
        "environments/environment/",
        "environments/split/{split}/change/",
        "environments/task/?sort=return",
    ),
    *(
        "environments/task/{task}/change/",
        "episodes/run/{run}/change/",
        "episodes/episode/{episode}/change/",
    ),
)
OF_OTHERS = (
    *(
        "/environments/{name}/",
        "/environments/{name}/leaderboard/",
        "/environments/math/leaderboard/?by=run",
    ),
    *(
        "/runs/{run}/",
        "/runs/curves/?by=model",
        "/tasks/{task}/",
        "/tasks/{task}/group/?run={run}&step=1",
    ),
    *("/suites/of-{kind}/", "/play/studies/of-{kind}/", "/environments/{name}/doctor/"),
)
"""What is read of the kinds after the first."""
NOTHING = re.compile(r"\|\s*None\s*\||\b[nN]a[nN]\b|[\N{EN DASH}-]\s*%|(?<![\d.])0\N{EN DASH}100\b")
"""What a figure of nothing may not be written as."""


def play(kind: str, environment: Any, split: str) -> Episode:
    """Return the last of an agent's and a person's rollouts of a kind at the two tasks of a new
    split."""
    tasks = [make_task(environment=environment) for _ in range(2)]
    facts = {
        "split": make_split(*tasks, name=split, environment=environment),
        "run": make_run(kind),
        "run_step": 1,
    }
    for task in tasks:
        place = {"environment": environment, "task": task, **facts}
        episode = end_episode(None, **{**place, "model": kind, **KINDS[kind]})
        end_episode(None, **{**place, "player": "human", "key_label": "@ada", **KINDS[kind]})
    return episode


@pytest.fixture
def rollouts() -> dict[str, Episode]:
    """Return an episode of each kind in an environment of its own. There are as many in `math`,
    together."""
    math, found = make_environment("math"), dict[str, Episode]()
    for kind in KINDS:
        own = make_environment(f"of-{kind}")
        found[kind] = play(kind, own, "train")
        make_step(play(kind, math, kind))
        study = study_of(Split.objects.get(environment=own), f"of-{kind}")
        played(study, **{"end_number": Episode.objects.count() + 1} | KINDS[kind])
    make_split(*Task.objects.filter(environment=math), name="train", environment=math)
    make_suite(*(member(split) for split in math.splits.all()), name="all")
    make_environment("bare")
    count_statistics()
    catch_up()
    return found


def addresses(kind: str, episode: Episode) -> Iterator[str]:
    """Yield the addresses of what the episode belongs to."""
    names = {
        "kind": kind,
        "name": episode.environment.name,
        "bare": make_run("bare").pk,
        "first": Episode.objects.first(),
    }
    names |= {name: getattr(episode, f"{name}_id") for name in ("run", "task", "split")} | {
        "episode": episode.pk
    }
    if kind != "left-out":
        yield from (path.format(**names) for path in OF_OTHERS)
        return
    for route in PAGES:
        path = address(route, episode).replace(f"/v{episode.pk}/", "/v1/")
        if route.startswith(("suites/", "play/studies/")):
            path = path.replace(f"/{episode.environment.name}/", f"/of-{kind}/")
        yield path
        yield from (f"{path}?{query.format(**names)}" for query in QUERIES.get(route, ()))
    yield from (f"/api/{path.format(**names)}" for path in API)
    yield from (f"/admin/{path.format(**names)}" for path in ADMIN)


def text_of(answer: Any) -> str:
    async def collected() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    is_async = answer.streaming and answer.is_async
    text: str = (async_to_sync(collected)() if is_async else answer.getvalue()).decode(
        errors="replace"
    )
    return re.sub(r"<script\b.*?</script>|<[^>]*>", "|", text, flags=re.DOTALL)


def test_figures_of_nothing_are_dashes_everywhere(
    client: Client, rollouts: dict[str, Episode]
) -> None:
    client.raise_request_exception = False
    paths = dict.fromkeys(
        path for kind, episode in rollouts.items() for path in addresses(kind, episode)
    )
    answers = {path: client.get(path) for path in paths}
    wrong = {
        path: str(answer.status_code)
        for path, answer in answers.items()
        if answer.status_code >= 500
    }
    for path, answer in answers.items():
        if answer.status_code == 200 and (found := NOTHING.search(text := text_of(answer))):
            wrong[path] = text[max(0, found.start() - 60) : found.end() + 20]
    assert sum(answer.status_code == 200 for answer in answers.values()) > 80 and not wrong


def test_the_interval_of_no_attempt_is_empty_in_files_and_null_in_json(
    client: Client, rollouts: Any
) -> None:
    board = csv.DictReader(
        io.StringIO(client.get("/environments/math/leaderboard/?format=csv").content.decode())
    )
    row = next(row for row in board if row["model"] == "left-out")
    curves = csv.DictReader(io.StringIO(text_of(client.get("/runs/curves/?by=model&format=csv"))))
    point = next(point for point in curves if point["series"] == "left-out")
    episode = rollouts["left-out"]
    [run, task] = (
        client.get(f"/api/{path}").json()
        for path in (f"runs/{episode.run_id}", f"tasks/{episode.task_id}")
    )
    for figures in (row, point, run["figures"]):
        assert {figures[name] for name in ("success", "success_low", "success_high", "mean")} <= {
            "",
            None,
        }
    assert {
        task["statistics"][name] for name in ("rate", "rate_low", "rate_high", "return_mean")
    } == {None}
