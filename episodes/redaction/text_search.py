"""Where recorded texts are stored, and a search through all of them. No index knows the encoded
forms of a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.db import models

from environments.database.jobs import Progress
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
    LooseBlob,
    Note,
    RedactedEpisode,
    Redaction,
    Rollout,
    RolloutMessage,
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
    *(
        Activity,
        Blob,
        CurveBlock,
        EnvironmentRevision,
        FollowedProgress,
        LooseBlob,
        StepGroup,
        StepSpan,
    )
}
_OWN: set[type] = {Redaction, RedactedEpisode, SignOnAccount}
_DERIVED = {"token_hash", "content_hash", "folded", "change", "split_hash"}

Model = type[models.Model]


def text_fields() -> dict[Model, list[Any]]:
    """Return the fields of each model that hold texts, or refer to blobs."""
    recorded = [
        one
        for one in apps.get_app_config("episodes").get_models()
        if one not in _WITHOUT_TEXTS | _OWN
    ]
    all_models: list[Model] = [*recorded, *_OF_TASKS, LogEntry, SecurityEvent]
    found = {
        model: [one for one in model._meta.concrete_fields if _holds_text(one)]
        for model in all_models
    }
    return {model: fields for model, fields in found.items() if fields}


def _holds_text(one: Any) -> bool:
    if one.related_model is Blob:
        return True
    is_text = isinstance(one, models.CharField | models.TextField)
    return is_text and not one.choices and not one.primary_key and one.name not in _DERIVED


@dataclass
class Found:
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
        counts = [
            _counted(len(pks), model._meta.verbose_name, model) for model, pks in self.rows.items()
        ]
        counts += (
            [f"{len(self.blobs):,} large text{'' if len(self.blobs) == 1 else 's'}"]
            if self.blobs
            else []
        )
        return (
            f"{', '.join(counts)} ({len(self.episodes):,} "
            f"episode{'' if len(self.episodes) == 1 else 's'} in all)"
        )


def _counted(count: int, name: Any, model: Model) -> str:
    return f"{count:,} {name if count == 1 else model._meta.verbose_name_plural}"


def find(mask: Mask, progress: Progress) -> Found:
    """Return all places with a text that `mask` replaces."""
    found, fields = Found(), text_fields()
    total, done = Blob.objects.count() + sum(model._default_manager.count() for model in fields), 0
    for blobs in _batches(Blob, ["pk"], BATCH_BLOBS):
        read = Blob.objects.filter(pk__in=[pk for pk, *_ in blobs])
        found.blobs += [blob.pk for blob in read if masked(mask, blob.text) is not None]
        progress(done := done + len(blobs), total)
    digests = set(found.blobs)
    for model, columns in fields.items():
        for rows in _batches(model, ["pk", *(column.attname for column in columns)], BATCH_ROWS):
            hits = [
                pk for pk, *values in rows if any(_is_hit(mask, digests, value) for value in values)
            ]
            if hits:
                _note(found, model, hits)
            progress(done := done + len(rows), total)
    return found


def _is_hit(mask: Mask, digests: set[str], value: str | None) -> bool:
    return bool(value) and (value in digests or masked(mask, value) is not None)


def masked(mask: Mask, text: str | None) -> str | None:
    """Return the text with what is masked; None if that is nothing."""
    if not text:
        return None
    result = mask.json(text) if text[0] in '{["' else text
    result = mask.text(result) if result == text else result
    return None if result == text else result


def _batches(model: Model, columns: list[str], size: int) -> Iterator[list[tuple[Any, ...]]]:
    last: Any = None
    while True:
        rows = model._default_manager.order_by("pk")
        rows = rows if last is None else rows.filter(pk__gt=last)
        if not (batch := list(rows.values_list(*columns)[:size])):
            return
        yield batch
        last = batch[-1][0]


def _note(found: Found, model: Model, hits: list[Any]) -> None:
    if model is Task:
        served = SplitEntry.objects.filter(task__in=hits, until__isnull=True).values_list(
            "task", flat=True
        )
        found.served_tasks += sorted(set(served))
        hits = [pk for pk in hits if pk not in set(served)]
    if hits:
        found.rows.setdefault(model, []).extend(hits)
    rows = model._default_manager.filter(pk__in=hits)
    if model is Episode:
        found.episodes.update(hits)
    elif model is Task:
        found.episodes.update(Episode.objects.filter(task__in=hits).values_list("pk", flat=True))
    elif model in (Step, Note):
        found.episodes.update(rows.values_list("episode", flat=True))
    elif model in (Rollout, RolloutMessage):
        path = "" if model is Rollout else "rollout__"
        found.rollouts.update(rows.values_list(f"{path}pk", flat=True))
        found.episodes.update(
            rows.filter(**{f"{path}episode__isnull": False}).values_list(
                f"{path}episode", flat=True
            )
        )
