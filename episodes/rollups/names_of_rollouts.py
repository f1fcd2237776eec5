"""Gives an episode the run and the model that only its uploaded rollout names.

Some clients say both when they upload and nothing when they play. Only an episode that says no run
gets one, from a rollout that is its own for certain, and not if it says a training step; the same
holds for the model. What has counted the episode already then counts it in its run and model, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from episodes.attempts.endings import endings_of
from episodes.models import Episode
from episodes.rollups.blocks import BlocksPart
from episodes.rollups.changed_episodes import counted_anew
from episodes.rollups.progress import followed_to
from episodes.rollups.recount import hold_counting, recount_tasks
from episodes.rollups.run_totals import RunTotalsPart
from episodes.rollups.scopes import RollupScope


class RolloutNames(NamedTuple):
    """What a rollout says of its episode."""

    episode: int
    run: int | None
    model: str


def give_names(names: Iterable[RolloutNames]) -> None:
    """Give the episodes the names that they lack. Call it first in a transaction. Raises:
    django.db.Error."""
    by_episode = {name.episode: name for name in names}
    models, runs = defaultdict[str, list[int]](list), defaultdict[int, list[int]](list)
    rows = (
        Episode.objects.filter(pk__in=by_episode)
        .order_by("pk")
        .values_list("pk", "model", "run", "run_step")
    )
    for episode, model, run, step in rows:
        if by_episode[episode].model and not model:
            models[by_episode[episode].model].append(episode)
        if (told_run := by_episode[episode].run) is not None and run is None and step is None:
            runs[told_run].append(episode)
    if not models and not runs:
        return
    blocks, joining = BlocksPart(), Episode.objects.filter(pk__in=chain(*runs.values()))
    with counted_anew(joining, [RunTotalsPart()]):
        hold_counting()
        for model, episodes in models.items():
            Episode.objects.filter(pk__in=episodes, model="").update(model=model)
        late = {run: _joined(run, episodes) for run, episodes in runs.items()}
    past = Episode.objects.filter(end_number__lte=followed_to(blocks.name))
    for run, episodes in late.items():
        blocks.insert(RollupScope("run", run), endings_of(past.filter(pk__in=episodes)))
    recount_tasks(
        sorted(
            set(Episode.objects.ended().filter(pk__in=by_episode).values_list("task", flat=True))
        )
    )


def _joined(run: int, episodes: list[int]) -> list[int]:
    """Give the run to those of the episodes that still have none, and return them."""
    alone = Episode.objects.filter(pk__in=episodes, run=None)
    joining = list(alone.values_list("pk", flat=True))
    alone.update(run=run)
    return joining
