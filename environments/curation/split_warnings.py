"""Warnings about quoted splits: test splits that change, or have changed, after somebody may have
cited them."""

from __future__ import annotations

from django.db.models import Q, QuerySet
from django.utils.module_loading import import_string

from environments.curation.action import Plan
from environments.curation.history_rows import object_of
from environments.curation.splits import content_digest
from environments.features import features
from environments.models import CurationAction, SecurityEvent, Split, TaskStatistics
from environments.tasks.task_places import places_of

MAX_READ = 100_000
"""A split with more tasks is not compared with what it was when it was frozen."""
MAX_PLAYED = 500
"""First tasks of a split that are looked at for attempts."""


def warnings_of_plan(plan: Plan | None) -> list[str]:
    """Return a sentence for each test split whose content an action will change although it was
    quoted."""
    shares = {share.split: share for share in plan.splits if share.tasks} if plan else {}
    return warnings_of_changing(Split.objects.filter(pk__in=shares))


def warnings_of_changing(splits: QuerySet[Split]) -> list[str]:
    """Return a sentence for each of the splits that is a test split and was quoted."""
    rows = splits.filter(type="test", frozen=None).select_related("environment")
    return [
        f"{split.name!r} is a test split, and {reason}. Figures from before and after the change "
        "can't be compared. "
        "To keep them comparable, change a copy under another name."
        for split in rows.order_by("position", "name")
        if (reason := _quoted(split))
    ]


def _quoted(split: Split) -> str:
    """Return where figures of the split may have been quoted; empty if nowhere."""
    if frozen := _last_freezing(split):
        return f"it was frozen on {frozen.created:%Y-%m-%d}, so somebody may have cited it"
    for quotation in (feature.quotation for feature in features() if feature.quotation):
        if sentence := import_string(quotation)(split):
            return str(sentence)
    if sentence := _exported(split):
        return sentence
    first = list(places_of(split).order_by("position").values_list("task", flat=True)[:MAX_PLAYED])
    attempts = TaskStatistics.objects.filter(by="all", attempts__gt=0, task__in=first)
    return "leaderboards and curves have attempts at it" if attempts.exists() else ""


def _exported(split: Split) -> str:
    """Return when the split was exported last, as far as the security log goes back."""
    by_page = Q(what__regex=rf"[ &]split={split.pk}(&|$)")
    by_command = Q(what__endswith=f" environment={split.environment.name} split={split.name}")
    exports = SecurityEvent.objects.filter(
        by_page | by_command, kind="exported", what__startswith="tasks as "
    )
    last = exports.order_by("-pk").first()
    return f"it was exported on {last.at:%Y-%m-%d}, so somebody may have cited it" if last else ""


def _last_freezing(split: Split) -> CurationAction | None:
    return CurationAction.objects.filter(split=split, kind="freeze").order_by("-pk").first()


def changed_since_frozen(split: Split) -> str:
    """Return that the split is no longer what it was when it was frozen; empty if it is, or never
    was."""
    frozen = (
        None
        if split.frozen or split.type != "test" or split.size > MAX_READ
        else _last_freezing(split)
    )
    digest = object_of(frozen.after).get("frozen_hash", "") if frozen else ""
    if frozen is None or not digest or content_digest(split) == digest:
        return ""
    return (
        f"It was frozen on {frozen.created:%Y-%m-%d} with the hash {digest[:12]}… and has other "
        "tasks or another order "
        "now. Figures that cite that hash can't be compared with new ones."
    )
