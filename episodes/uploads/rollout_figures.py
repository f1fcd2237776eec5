"""Figures over rollouts, computed when they are requested: rewards, lengths, and difficulties of
tasks.

The reward of a rollout is the last one of its messages, because clients repeat a reward on each of
the messages into which they cut one turn. Episodes of which no client has uploaded a rollout count
beside them: their reward is the return by the environment's definition, and the text of the model
is the input of its calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import (
    Avg,
    Case,
    Count,
    Exists,
    F,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Length, NullIf

from environments.models import Viewer
from environments.tasks.task_facts import ServedPlace, served_places
from environments.tasks.task_places import batched
from episodes.attempts.conventions import ConventionsInForce
from episodes.models import Episode, Rollout, RolloutMessage, Run, Step
from episodes.uploads.matching import match_of

MAX_ROLLOUTS = 50_000
"""Difficulties are those of the newest rollouts, as many as this."""
MAX_MEAN_ROLLOUTS = 5_000
"""Means of a run are those of its newest rollouts, as many as this, because a page lists many
runs."""
MAX_TASKS_AT_ONCE = 300
"""Tasks whose places are looked up together."""
MAX_UNDER_WAY = 20
"""Rollouts of a run that are still being uploaded, of which the episodes are looked for."""
PERCENTILES = (1, 10, 25, 50, 75, 90, 99)


def attempts_of(viewer: Viewer) -> QuerySet[Episode]:
    """Return the attempts that exist for the viewer, by the conventions of their environments."""
    return Episode.objects.seen_by(viewer).filter(ConventionsInForce.of().attempts)


def with_figures(rollouts: QuerySet[Rollout]) -> QuerySet[Any]:
    """Return the rollouts with `last_reward`, `max_reward`, `sent_messages` and `characters` of the
    model's text."""
    messages = RolloutMessage.objects.filter(rollout=OuterRef("pk"))
    rewards = messages.filter(reward__isnull=False).order_by("-index", "-id")
    of_all = messages.order_by().values("rollout")
    return rollouts.annotate(
        last_reward=Subquery(rewards.values("reward")[:1]),
        max_reward=Subquery(of_all.annotate(most=Max("reward")).values("most")),
        sent_messages=Coalesce(Subquery(of_all.annotate(n=Count("pk")).values("n")), 0),
        characters=Coalesce(Subquery(of_all.annotate(n=Sum("response_characters")).values("n")), 0),
    )


@dataclass(frozen=True)
class DifficultyQuery:
    """Which rollouts of an environment count. None: all."""

    environment: str
    viewer: Viewer
    variant: str | None = None
    split: str | None = None
    model: str | None = None
    min_model_params: int | None = None
    max_model_params: int | None = None
    training_stage: str | None = None


class _Reward(NamedTuple):
    """What one rollout adds to the figures of its task."""

    split: str | None
    task_index: int | None
    task: int | None
    """Id of the task, which tells its place where the client sent the content of a task and no
    index."""
    variant: str | None
    reward: float | None
    characters: int


def difficulties(query: DifficultyQuery) -> list[dict[str, Any]]:
    """Return a row for each task with a rewarded rollout, by split, variant (None first) and
    index."""
    rewards = _uploaded(query)
    # episodes have none of what only uploads say
    uploads = (query.variant, query.min_model_params, query.max_model_params, query.training_stage)
    if all(value is None for value in uploads):
        rewards += _played(query)
    groups = defaultdict[tuple[str, str, int], list[_Reward]](list)
    for row in _placed(rewards):
        if (
            row.reward is not None
            and row.task_index is not None
            and query.split in (None, row.split)
        ):
            groups[row.split or "", row.variant or "", row.task_index].append(row)
    return [_row(*key, groups[key]) for key in sorted(groups)]


def _uploaded(query: DifficultyQuery) -> list[_Reward]:
    conditions = {
        "environment_name": query.environment,
        "variant": query.variant,
        "model": query.model,
        "model_params__gte": query.min_model_params,
        "model_params__lte": query.max_model_params,
        "training_stage": query.training_stage,
    }
    is_joined = Q(episode__isnull=False) & ~Q(joined_by="guess")
    episode_index = Case(When(is_joined, then=F("episode__task_index")))
    episode_split = Case(When(is_joined, then=F("episode__split__name")))
    rollouts = Rollout.objects.seen_by(query.viewer).filter(
        Q(task_index__isnull=False) | is_joined,
        Q() if query.split is None else Q(split=query.split) | Q(is_joined, split=""),
        **{name: value for name, value in conditions.items() if value is not None},
    )
    rows = (
        with_figures(rollouts)
        .order_by("-id")
        .values_list(
            Coalesce(NullIf("split", Value("")), episode_split),
            Coalesce("task_index", episode_index),
            Case(When(is_joined, then=F("episode__task_id"))),
            "variant",
            "last_reward",
            "characters",
        )
    )
    return [_Reward(*row) for row in rows[:MAX_ROLLOUTS]]


def _played(query: DifficultyQuery) -> list[_Reward]:
    """Return the rewards of the episodes without an uploaded rollout that has a reward."""
    uploads = Rollout.objects.seen_by(query.viewer).filter(
        episode=OuterRef("pk"), messages__reward__isnull=False
    )
    inputs = Step.objects.filter(episode=OuterRef("pk")).order_by().values("episode")
    length = Coalesce(F("input_blob__size_bytes"), Length("input"))
    rows = (
        attempts_of(query.viewer)
        .filter(
            Q() if query.split is None else Q(split__name=query.split) | Q(split=None),
            Q() if query.model is None else Q(model=query.model),
            ~Exists(uploads),
            environment__name=query.environment,
        )
        .annotate(
            returned=ConventionsInForce.of().return_of(None),
            characters=Coalesce(Subquery(inputs.annotate(n=Sum(length)).values("n")), 0),
        )
        .order_by("-id")
        .values_list("split__name", "task_index", "task_id", Value(""), "returned", "characters")
    )
    return [_Reward(*row) for row in rows[:MAX_ROLLOUTS]]


def _placed(rewards: Sequence[_Reward]) -> Iterator[_Reward]:
    """Yield the rewards with the place of their task where only that is known."""
    tasks = {row.task for row in rewards if row.task_index is None and row.task is not None}
    places: dict[int, list[ServedPlace]] = {}
    for batch in batched(sorted(tasks), MAX_TASKS_AT_ONCE):
        places.update(served_places(batch))
    for row in rewards:
        for place in places.get(row.task or 0, ()) if row.task_index is None else ():
            if not row.split or place.split.name == row.split:
                row = row._replace(split=place.split.name, task_index=place.index)
                break
        yield row


def _row(split: str, variant: str, index: int, rollouts: Sequence[_Reward]) -> dict[str, Any]:
    rewards = [row.reward for row in rollouts if row.reward is not None]
    low, high = min(rewards), max(rewards)
    return {
        "task_index": index,
        "avg_reward": min(max(sum(rewards) / len(rewards), low), high),
        "min_reward": low,
        "max_reward": high,
        "num_rollouts": len(rewards),
        "response_chars": spread([row.characters for row in rollouts]),
        "split": split or None,
        "variant": variant or None,
    }


def spread(values: Iterable[int]) -> dict[str, float]:
    """Return the mean and the percentiles, interpolated between neighbours."""
    numbers = sorted(values)
    figures = {"mean": sum(numbers) / len(numbers)}
    for percent in PERCENTILES:
        place = (len(numbers) - 1) * percent / 100
        low = int(place)
        high = min(low + 1, len(numbers) - 1)
        figures[f"p{percent}"] = numbers[low] + (numbers[high] - numbers[low]) * (place - low)
    return figures


@dataclass(frozen=True)
class RunFigures:
    """Figures of one run: of its uploaded rollouts, and of its episodes of which nobody has
    uploaded one."""

    rollouts: int
    """Number of both."""
    mean_reward: float | None
    mean_length: float | None
    """Messages of an uploaded rollout; tool calls of an episode if none was uploaded."""


def run_figures(run: Run, viewer: Viewer) -> RunFigures:
    """Return the figures of a run as far as the viewer sees it. Rewards and lengths of uploads are
    those of the newest."""
    rollouts = Rollout.objects.seen_by(viewer).filter(run=run)
    count = rollouts.count()
    episodes = unreported_episodes(run, viewer).annotate(
        returned=ConventionsInForce.of().return_of(None)
    )
    means = episodes.aggregate(
        reward=Avg("returned"), scored=Count("returned"), length=Avg("steps_count"), n=Count("pk")
    )
    if not count:
        return RunFigures(means["n"], means["reward"], means["length"])
    newest = (
        with_figures(rollouts)
        .order_by("-id")
        .values_list("last_reward", "sent_messages")[:MAX_MEAN_ROLLOUTS]
    )
    rewards, lengths = zip(*newest, strict=True)
    numbers = [reward for reward in rewards if reward is not None]
    # of the rewards among all of them, as far as the newest tell
    weight = len(numbers) * count / len(rewards)
    total = (_mean(numbers) or 0) * weight + (means["reward"] or 0) * means["scored"]
    weight += means["scored"]
    return RunFigures(count + means["n"], total / weight if weight else None, _mean(lengths))


def unreported_episodes(run: Run, viewer: Viewer) -> QuerySet[Episode]:
    """Return the attempts of a run of which nobody has uploaded a rollout in this run."""
    rollouts = Rollout.objects.filter(run=run)
    under_way = (
        Rollout.objects.seen_by(viewer)
        .filter(run=run, is_summarised=False)
        .select_related("event_blob")
    )
    matches = [match_of(rollout) for rollout in under_way.order_by("-id")[:MAX_UNDER_WAY]]
    episodes = (
        attempts_of(viewer)
        .filter(run=run)
        .exclude(pk__in=[match.episode.pk for match in matches if match])
    )
    return episodes.exclude(Exists(rollouts.filter(episode=OuterRef("pk"))))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


# --- rollouts that are still being uploaded -------------------------------------------------------


def with_current_figures(rollouts: Sequence[Rollout]) -> Sequence[Rollout]:
    """Return the rollouts after filling the columns of those that are not summarised yet. One query
    if there are any.

    Tokens and cost of those stay as they are, because every message has to be read for them.
    """
    pending = {rollout.pk: rollout for rollout in rollouts if not rollout.is_summarised}
    if pending:
        rows = with_figures(Rollout.objects.filter(pk__in=pending).order_by())
        for pk, count, reward in rows.values_list("pk", "sent_messages", "last_reward"):
            pending[pk].messages_count, pending[pk].reward = count, reward
    return rollouts
