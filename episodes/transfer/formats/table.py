"""Writes a CSV file with a row per episode, for spreadsheets.

A column for each component of rewards follows the others; its value is by the definition of the
environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import QuerySet

from environments.files.csv_lines import csv_line
from environments.scoring.returns import RETURNS
from episodes.filtering.columns import further_columns
from episodes.models import Episode, EpisodeComponent, RewardComponent
from episodes.rollups.components import late_components
from episodes.transfer.export_file import BATCH_EPISODES, ExportFile
from episodes.transfer.export_rows import EpisodeFacts
from episodes.transfer.formats import ExportFormat, ExportLink
from episodes.uploads.matching import rollouts_of_episodes
from episodes.uploads.usage import USAGE_FIELDS

_COLUMNS = {
    "episode": "id",
    "environment": "environment",
    "split": "split",
    "task_index": "task_index",
    "task": "content_hash",
    "run": "run",
    "run_step": "run_step",
    "model": "model",
    "player": "player",
    "status": "status",
    "cause": "cause",
    "detail": "detail",
    "is_probe": "is_probe",
    "steps": "steps_count",
    "failed": "failed_count",
    "refused": "refused_count",
    "return_sum": "return_sum",
    "return_last": "return_last",
    "return_max": "return_max",
    "return_mean": "return_mean",
    "created": "created",
    "ready": "ready",
    "first_acted": "first_acted",
    "last_acted": "last_acted",
    "ended": "ended",
    "duration_seconds": "duration_seconds",
    "session_id": "session_id",
    "user_agent": "user_agent",
    "key_label": "key_label",
    "labels": "labels",
}
"""Column -> field of EpisodeFacts."""
_ROLLOUT_COLUMNS = {"rollout": "event_id"} | {name: name for name in USAGE_FIELDS}
"""Column -> field of Rollout, which the client uploaded: the id that it gave the rollout, tokens
and cost."""


def rows(file: ExportFile) -> Iterator[str]:
    names = _component_names(file.episodes)
    further = [column.name for column in further_columns(_COLUMNS)]
    components = [f"component:{name}" for name in names]
    yield csv_line([*_COLUMNS, "success", *further, *_ROLLOUT_COLUMNS, *components])
    batch = list[EpisodeFacts]()
    for facts in file.facts():
        batch.append(facts)
        if len(batch) == BATCH_EPISODES:
            yield _lines(file, batch, names)
            batch = []
    yield _lines(file, batch, names)


FORMATS = [
    ExportFormat(
        name="csv",
        label="CSV",
        position=2,
        media_type="text/csv; charset=utf-8",
        extension="csv",
        pieces=rows,
        links=[ExportLink("CSV", "one row per episode")],
    )
]


def _component_names(episodes: QuerySet[Episode]) -> list[str]:
    """Return the names of the components that the environments of `episodes` report, as far as is
    known."""
    late = {name for _, name in late_components(episodes)}
    reporting = RewardComponent.objects.order_by().values_list("environment_id", flat=True)
    present = [
        pk for pk in reporting.distinct() if episodes.order_by().filter(environment=pk).exists()
    ]
    names = RewardComponent.objects.filter(environment_id__in=present).values_list(
        "name", flat=True
    )
    return sorted(late.union(names))


def _lines(file: ExportFile, batch: Sequence[EpisodeFacts], names: Sequence[str]) -> str:
    """Return the lines of some episodes, whose components and rollouts are read together."""
    components = _components_of(batch) if names else {}
    further = _further_values([facts.id for facts in batch])
    rollouts = rollouts_of_episodes(facts.id for facts in batch)
    lines = list[str]()
    for facts in batch:
        rollout = rollouts.get(facts.id)
        lines.append(
            csv_line(
                [
                    *(getattr(facts, name) for name in _COLUMNS.values()),
                    facts.success_by(file.options.definition),
                    *further.get(facts.id, ()),
                    *(getattr(rollout, name, None) for name in _ROLLOUT_COLUMNS.values()),
                    *(components.get((facts.id, name)) for name in names),
                ]
            )
        )
    return "".join(lines)


def _further_values(episodes: Sequence[int]) -> dict[int, list[Any]]:
    """Return the values of the columns that EpisodeFacts lacks. One query if there are any."""
    sources = [column.source for column in further_columns(_COLUMNS)]
    if not sources:
        return {}
    rows = Episode.objects.filter(pk__in=episodes).values_list("pk", *sources)
    return {pk: values for pk, *values in rows}


def _components_of(batch: Sequence[EpisodeFacts]) -> dict[tuple[int, str], float]:
    """Return the values of the components by episode and name, each by the definition of its
    environment."""
    definitions = {facts.id: RETURNS.index(facts.default_return) for facts in batch}
    values = dict(late_components(Episode.objects.filter(pk__in=definitions)))
    rows = EpisodeComponent.objects.filter(episode__in=definitions).values_list(
        "episode_id", "component__name", *(f"value_{name}" for name in RETURNS)
    )
    values |= {(episode, name): tuple(row) for episode, name, *row in rows}
    return {key: row[definitions[key[0]]] for key, row in values.items()}
