"""Where recorded texts are stored, and a search through all of them. No index knows the encoded
forms of a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.db import models

from environments.database.background_jobs import Progress
from environments.files.rows import many
from environments.models import (
    SecurityEvent,
    SplitEntry,
    Task,
    TaskFlag,
    TaskRevision,
    TaskStatistics,
    TaskTag,
)
from environments.runtime.secrets_mask import Mask
from episodes.models import (
    Activity,
    Blob,
    CurveBlock,
    EnvironmentRevision,
    Episode,
    LatestTotal,
    LooseBlob,
    Note,
    RedactedEpisode,
    Redaction,
    Rollout,
    RolloutMessage,
    RunTotal,
    SignOnAccount,
    Step,
    StepGroup,
    StepSpan,
)
from episodes.models import Progress as FollowedProgress

BATCH_ROWS = 500
BATCH_BLOBS = 50

_OF_TASKS = (Task, TaskFlag, TaskRevision, TaskStatistics, TaskTag)
_WITHOUT_TEXTS: set[type] = {
    Activity,
    Blob,
    CurveBlock,
    EnvironmentRevision,
    FollowedProgress,
    LatestTotal,
    LooseBlob,
    RunTotal,
    StepGroup,
    StepSpan,
}
_OWN: set[type] = {Redaction, RedactedEpisode, SignOnAccount}
_DERIVED = {"token_hash", "content_hash", "folded", "change", "split_hash"}

Model = type[models.Model]


def text_fields() -> dict[Model, list[Any]]:
    """Return the fields of each model that hold texts, or refer to blobs."""
    of_episodes = [
        model
        for model in apps.get_app_config("episodes").get_models()
        if model not in _WITHOUT_TEXTS | _OWN
    ]
    fields_of: dict[Model, list[Any]] = {}
    all_models: list[Model] = [*of_episodes, *_OF_TASKS, LogEntry, SecurityEvent]
    for model in all_models:
        for column in model._meta.concrete_fields:
            is_text = isinstance(column, models.CharField | models.TextField)
            is_content = not (column.choices or column.primary_key or column.name in _DERIVED)
            if column.related_model is Blob or (is_text and is_content):
                fields_of.setdefault(model, []).append(column)
    return fields_of


@dataclass
class TextPlaces:
    """Where a text is."""

    blobs: list[str] = field(default_factory=list)
    rows: dict[Model, list[Any]] = field(default_factory=dict)
    """Ids by model."""
    episodes: set[int] = field(default_factory=set)
    rollouts: set[int] = field(default_factory=set)
    served_tasks: list[int] = field(default_factory=list)
    """Tasks that a split serves, which people have to edit."""

    @property
    def count(self) -> int:
        return len(self.blobs) + sum(map(len, self.rows.values()))

    @property
    def sentence(self) -> str:
        """Return where the text was found, in words."""
        counts = []
        for model, pks in self.rows.items():
            names = model._meta
            name = names.verbose_name if len(pks) == 1 else names.verbose_name_plural
            counts.append(f"{len(pks):,} {name}")
        if self.blobs:
            counts.append(many(len(self.blobs), "large text"))
        return f"{', '.join(counts)} ({many(len(self.episodes), 'episode')} in all)"


def find(mask: Mask, progress: Progress) -> TextPlaces:
    """Return all places with a text that `mask` replaces."""
    places, fields = TextPlaces(), text_fields()
    total, count = Blob.objects.count() + sum(model._default_manager.count() for model in fields), 0
    for blobs in _batches(Blob, ["pk"], BATCH_BLOBS):
        batch = Blob.objects.filter(pk__in=[pk for pk, *_ in blobs])
        places.blobs += [blob.pk for blob in batch if masked(mask, blob.text) is not None]
        progress(count := count + len(blobs), total)
    digests = set(places.blobs)
    for model, columns in fields.items():
        for rows in _batches(model, ["pk", *(column.attname for column in columns)], BATCH_ROWS):
            hits = [
                pk
                for pk, *values in rows
                if any(value in digests or masked(mask, value) is not None for value in values)
            ]
            if hits:
                _note(places, model, hits)
            progress(count := count + len(rows), total)
    return places


def masked(mask: Mask, text: str | None) -> str | None:
    """Return the text with what is masked; None if that is nothing."""
    if not text:
        return None
    result = mask.json(text) if text[0] in '{["' else text
    if result == text:
        result = mask.text(text)
    return None if result == text else result


def _batches(model: Model, columns: list[str], size: int) -> Iterator[list[tuple[Any, ...]]]:
    last: Any = None
    while True:
        rows = model._default_manager.order_by("pk")
        if last is not None:
            rows = rows.filter(pk__gt=last)
        if not (batch := list(rows.values_list(*columns)[:size])):
            return
        yield batch
        last = batch[-1][0]


def _note(places: TextPlaces, model: Model, hits: list[Any]) -> None:
    if model is Task:
        entries = SplitEntry.objects.filter(task__in=hits, until__isnull=True)
        served_tasks = set(entries.values_list("task", flat=True))
        places.served_tasks += sorted(served_tasks)
        hits = [pk for pk in hits if pk not in served_tasks]
    if hits:
        places.rows.setdefault(model, []).extend(hits)
    rows = model._default_manager.filter(pk__in=hits)
    if model is Episode:
        places.episodes.update(hits)
    elif model is Task:
        places.episodes.update(Episode.objects.filter(task__in=hits).values_list("pk", flat=True))
    elif model in (Step, Note):
        places.episodes.update(rows.values_list("episode", flat=True))
    elif model in (Rollout, RolloutMessage):
        path = "" if model is Rollout else "rollout__"
        for rollout, episode in rows.values_list(f"{path}pk", f"{path}episode"):
            places.rollouts.add(rollout)
            if episode is not None:
                places.episodes.add(episode)
