"""Splits as a whole: made, frozen, unfrozen, deleted.

A curated split that is not served does not exist for anybody: it was deleted, or its making was interrupted. Its row
stays, because episodes refer to it and the record remembers its id by its name; the name is free, and whoever takes it
takes the row.

Freezing: a split whose content and order cannot change, and the hash that tells them apart from any other.

Driven by curation (`curation/splits.py`). Blocking.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F, Max, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from environments.curation.action import WAIT_SECONDS, ActionOutcome, ActionRefused, Plan, SplitShare
from environments.curation.shares import tasks
from environments.database.jobs import Progress, silent
from environments.database.write_turns import give_way
from environments.models import Environment, Split, SplitEntry, SplitRemoval
from environments.tasks.split_change import BATCH, UNFROZEN, FrozenSplit, SplitChange, commit


def freeze(split: Split) -> str:
    """The hash over the split's content, which from now on cannot change. Raises: FrozenSplit, SplitBusy, SplitGone."""
    with SplitChange(split) as change:
        digest = content_digest(split)
        change.write(frozen=timezone.now(), frozen_hash=digest)
    return digest


def unfreeze(split: Split) -> None:
    """Let the split change again, at once; a SplitChange that `unfreezes` does it together with what it changes."""
    Split.objects.filter(pk=split.pk).update(**UNFROZEN)


def content_digest(split: Split) -> str:
    """sha256 over the content hashes of the tasks served, in order, each followed by a newline."""
    digest, last = hashlib.sha256(), -1
    served = SplitEntry.objects.filter(split=split.pk, until=None, is_hidden=False).order_by("position")
    while places := list(served.filter(position__gt=last).values_list("position", "task__content_hash")[:BATCH]):
        last = places[-1][0]
        digest.update("".join(f"{content}\n" for _, content in places).encode())
    return digest.hexdigest()


MAX_CHARACTERS = 200


def existing_splits() -> QuerySet[Split]:
    """Splits that there are, whether served or no longer declared by their class."""
    return Split.objects.exclude(is_curated=True, is_served=False).select_related("environment")


def splits_to_fill() -> QuerySet[Split]:
    """Those that tasks can be put into: neither frozen nor generated."""
    return existing_splits().filter(Q(environment__is_procedural=False) | Q(is_curated=True), frozen=None)


def find_split(split: int) -> Split:
    """Raises: Refused."""
    row = existing_splits().filter(pk=split).first()
    if row is None:
        raise ActionRefused("This split does not exist any more; choose another.")
    return row


def free_name(environment: int, name: str) -> str:
    """The name, if a split can have it. Raises: Refused."""
    name = name.strip()
    if not 0 < len(name) <= MAX_CHARACTERS:
        raise ActionRefused(f"A split's name has 1 to {MAX_CHARACTERS} characters; this one has {len(name)}.")
    if not name.isprintable() or set(name) & set("/\\"):
        raise ActionRefused(
            f"Split name {name!r} has a slash or a control character; use letters, digits, blanks and signs."
        )
    if existing_splits().filter(environment=environment, name=name).exists():
        raise ActionRefused(f"There is a split {name!r} already; choose another name, or copy the tasks to that one.")
    return name


@contextmanager
def making(environment: int, name: str, kind: str) -> Iterator[SplitChange]:
    """The change whose commit makes a curated split; without it nothing of the split is seen, and a deleted one that
    had the name stays what it was. Raises: Refused, SplitBusy.
    """
    kinds = [known for known, _ in Split.TYPES]
    if kind not in kinds:
        raise ActionRefused(f"Split type {kind!r} is unknown; use {', '.join(kinds)}.")
    with transaction.atomic():
        Environment.objects.select_for_update().get(pk=environment)  # two who take the same name come one by one
        others = Split.objects.filter(environment=environment)
        end = others.aggregate(end=Coalesce(Max("position") + 1, 0))["end"]
        values = {"type": kind, "position": end}
        split, _ = others.get_or_create(
            environment_id=environment,
            name=free_name(environment, name),
            defaults={**values, "is_curated": True, "is_served": False},
        )
    with SplitChange(split, becomes=values) as change:
        free_name(environment, name)  # another may have made it just before this change claimed it
        clear(split)  # what the making or deleting of one that had the name left behind
        yield change


@dataclass(frozen=True, slots=True)
class FreezeSplit:
    """Content and order can no longer change; `Split.frozen_hash` tells them apart from any other."""

    split: int

    def plan(self) -> Plan:
        split = find_split(self.split)
        if split.frozen:
            raise ActionRefused(f"Split {split.name!r} is frozen already.")
        if split.is_generated:
            raise ActionRefused(
                f"The class makes the tasks of split {split.name!r} when asked, so there is nothing here to freeze; "
                "save or import tasks as a new split and freeze that."
            )
        share = SplitShare(split.pk, split.name, split.size)
        sentence = "Its tasks and their order cannot change until it is unfrozen: edits and quarantines pass it by."
        return Plan(f"Freeze split {split.name!r}", split.size, 0, frozen=(share,), sentences=(sentence,))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        self.plan()
        split = find_split(self.split)
        digest = freeze(split)
        return ActionOutcome(f"Froze split {split.name!r}. Its hash is {digest}.", 0, split=split.pk)


@dataclass(frozen=True, slots=True)
class UnfreezeSplit:
    """Let a split change again. Tasks that were quarantined meanwhile are no longer served in it."""

    split: int

    def plan(self) -> Plan:
        split, stale = self._frozen(), self._stale()
        share = (SplitShare(split.pk, split.name, len(stale)),) if stale else ()
        changed = f"{tasks(len(stale), 'was', 'were')} quarantined or released meanwhile, which will take effect in it."
        is_left = split.environment.is_procedural and not split.is_curated
        asked = "Its class makes tasks when asked: from the server's next start it is asked for those of this split."
        sentences = (*([changed] if stale else []), *([asked] if is_left else []))
        return Plan(f"Unfreeze split {split.name!r}", split.size, 0, share, sentences=sentences)

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        split, stale = self._frozen(), list[int]()

        def tell(done: int) -> None:
            progress(done, max(done, len(stale)))

        with SplitChange(split, serves=split.is_served, unfreezes=True, progress=tell) as change:
            while stale := self._stale():  # once more, for what was quarantined while these were staged
                change.refresh(stale)
            if change.has_staged:
                commit(change)
            else:
                unfreeze(split)  # readers need not read again
        return ActionOutcome(f"Unfroze split {split.name!r}.", 0, split=split.pk)

    def _frozen(self) -> Split:
        split = find_split(self.split)
        if not split.frozen:
            raise ActionRefused(f"Split {split.name!r} is not frozen.")
        return split

    def _stale(self) -> list[int]:
        quarantined = Q(task__state="quarantined")
        wrong = (quarantined & Q(is_hidden=False)) | (~quarantined & Q(is_hidden=True))
        places = SplitEntry.objects.filter(wrong, split=self.split, until=None).order_by("position")
        return list(dict.fromkeys(places.values_list("task_id", flat=True).iterator(2000)))


@dataclass(frozen=True, slots=True)
class DeleteSplit:
    """Delete a curated split. Its tasks stay, and so do sessions that are being played."""

    split: int
    reason: str = ""

    def plan(self) -> Plan:
        split = self._deletable()
        sentences = (
            "Agents that ask for it are told that there is no such split; sessions that are being played go on.",
            "Its tasks, their results and what was played in it stay.",
        )
        share = SplitShare(split.pk, split.name, split.size)
        return Plan(f"Delete split {split.name!r}", split.size, 0, (share,), sentences=sentences)

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        split = self._deletable()
        with SplitChange(split, wait_seconds=WAIT_SECONDS):
            Split.objects.filter(pk=split.pk).update(is_served=False, size=0, version=F("version") + 1)
            clear(split)
        return ActionOutcome(f"Deleted split {split.name!r}.", 0)

    def _deletable(self) -> Split:
        split = find_split(self.split)
        if not split.is_curated:
            raise ActionRefused(
                f"Split {split.name!r} is declared by the class of {split.environment.name!r}; remove it there."
            )
        if split.frozen:
            raise FrozenSplit(split)
        return split


def clear(split: Split) -> None:
    """Remove all places of a split that nobody sees."""
    while places := list(SplitEntry.objects.filter(split=split).values_list("pk", flat=True)[:BATCH]):
        SplitEntry.objects.filter(pk__in=places).delete()
        give_way()
    SplitRemoval.objects.filter(split=split).delete()
