"""A private environment with a row of everything that belongs to one, each with the word CANARY in
it.

Its episodes were played by people and with three keys before it was made private: `outsider`, from
which it is hidden now, `narrow`, which was made for another environment, and `insider`, which names
it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from environments.models import Environment, TaskStatistics
from environments.scoring.definition import definition_of
from episodes.models import (
    EnvironmentRevision,
    Episode,
    EpisodeComponent,
    Note,
    RewardComponent,
    Run,
    RunTag,
    ScalarSeries,
    Suite,
)
from episodes.search.index import index
from episodes.suites.versions import NewMember, publish
from tests.episodes.ended import end_episode
from tests.episodes.reported import reported
from tests.stored import (
    NOW,
    make_blob,
    make_environment,
    make_run,
    make_split,
    make_step,
    make_task,
)

CANARY = "quetzal"
PUBLIC = "plain"
LABELS = ("outsider", "narrow", "insider")


class Ids(NamedTuple):
    """Ids of rows of the private environment, by the words of addresses."""

    episodes: int
    tasks: int
    runs: int
    rollouts: int


def make_private_rows() -> dict[str, Ids]:
    """Create the rows, and an episode of each key in a public environment; return ids by the label
    of the key."""
    plain = make_task(environment=make_environment(PUBLIC))
    environment = make_environment(CANARY, description=f"{CANARY} described")
    task = make_task({"question": f"{CANARY} question"}, environment)
    split = make_split(task, name=f"{CANARY}-split", environment=environment)
    members = [NewMember(split, definition_of(environment))]
    publish(Suite(name=f"{CANARY}-suite"), "success", members, "ada")
    values: dict[str, Any] = {
        "environment": environment,
        "task": task,
        "split": split,
        "run": _tagged_run(),
    }
    values |= {
        "model": f"{CANARY}-model",
        "prompt": make_blob(f'[{{"type": "text", "text": "{CANARY} prompt"}}]'),
    }
    values |= {"revision": _revision(environment)}
    make_step(
        end_episode(0.0, **values, key_label=f"@{CANARY}", player="human"),
        text=f"{CANARY} of a person",
    )
    found = {}
    for label in LABELS:
        end_episode(task=plain, run=make_run(f"{PUBLIC}-run"), model="m", key_label=label)
        episode = end_episode(**values, key_label=label)
        make_step(episode, text=f"{CANARY} output", reward=1.0)
        Note.objects.create(episode=episode, author="a", text=f"{CANARY} note")
        index([episode.pk])
        found[label] = Ids(episode.pk, task.pk, values["run"].pk, _rollout(episode))
    _derived(environment, episode)
    Environment.objects.filter(pk=environment.pk).update(is_private=True)
    return found


def _tagged_run() -> Run:
    run = make_run(f"{CANARY}-run")
    RunTag.objects.create(run=run, name=f"{CANARY}-tag")
    ScalarSeries.objects.create(run=run, name=f"{CANARY}-loss", points=1, last=1.0)
    return run


def _revision(environment: Environment) -> EnvironmentRevision:
    made = {"digest": "0", "versions": "{}", "first_episode": 1, "created": NOW}
    return EnvironmentRevision.objects.create(environment=environment, code=f"{CANARY}0", **made)


def _rollout(episode: Episode) -> int:
    """Create a rollout of the episode and one without an episode, and return the id of the
    first."""
    said = [("user_message", f"{CANARY} said", {})]
    values = {
        "environment": CANARY,
        "environment_name": CANARY,
        "key_label": episode.key_label,
        "is_summarised": True,
    }
    values |= {"model": f"{CANARY}-model"}
    reported(f"{CANARY}-alone-{episode.pk}", said, **values)
    return reported(
        f"{CANARY}-{episode.pk}",
        said,
        **values,
        episode=episode,
        joined_by="session",
        run=episode.run,
    ).pk


def _derived(environment: Environment, episode: Episode) -> None:
    """Create what is derived from episodes: figures of the task, and a component of rewards."""
    counted = {"attempts": 3, "scored": 3, "successes": 3, "return_total": 3.0, "rate": 1.0}
    # the server of the test may have counted the episodes already
    TaskStatistics.objects.update_or_create(
        counted, {**counted, "environment": environment}, task=episode.task, by="all", key=""
    )
    part = RewardComponent.objects.create(environment_id=environment.pk, name=f"{CANARY}-part")
    values = {"value_sum": 1.0, "value_last": 1.0, "value_max": 1.0, "value_mean": 1.0}
    EpisodeComponent.objects.create(episode=episode, component=part, **values)
