"""Splits as a whole: making, freezing, unfreezing and deleting them. Used by the admin and by
commands. Blocking.

The content and order of a frozen split cannot change; a hash identifies them.

A curated split that is not served does not exist for anybody: it was deleted, or its making was
interrupted. Its row stays, because episodes refer to it and the record remembers its id by its
name, and so do its places, to bring it back. The name is free, and a new split of that name takes
the row and clears the places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from environments import conf, security_log
from environments.curation.action import ActionOutcome, ActionRefused, Plan, SplitShare
from environments.curation.leaks import leaks_of_split
from environments.curation.split_counts import tasks
from environments.curation.work import MAX_WAIT_SECONDS, RecordedAction, recorded
from environments.database.background_jobs import Progress, silent
from environments.database.write_pauses import give_way
from environments.models import Environment, Split, SplitEntry, SplitRemoval
from environments.models.tasks import SplitQuerySet
from environments.tasks.split_change import BATCH, UNFROZEN, SplitChange, commit
from environments.tasks.split_errors import FrozenSplit
from environments.tasks.successors import successors_of


def freeze(split: Split) -> str:
    """Keep the split's content from changing. Returns the hash over it. Raises: FrozenSplit,
    SplitBusy, SplitGone."""
    with SplitChange(split) as change:
        digest = content_digest(split)
        change.write(frozen=timezone.now(), frozen_hash=digest)
    return digest


def unfreeze(split: Split) -> None:
    """Let the split change again, at once; a SplitChange with `unfreezes` does that together with
    its changes."""
    Split.objects.filter(pk=split.pk).update(**UNFROZEN)


def content_digest(split: Split) -> str:
    """Return the sha256 of the content hashes of the served tasks, in order, each followed by a
    newline."""
    digest, last = hashlib.sha256(), -1
    entries = SplitEntry.objects.filter(split=split.pk, until=None, is_hidden=False).order_by(
        "position"
    )
    while places := list(
        entries.filter(position__gt=last).values_list("position", "task__content_hash")[:BATCH]
    ):
        last = places[-1][0]
        digest.update("".join(f"{content}\n" for _, content in places).encode())
    return digest.hexdigest()


MAX_CHARACTERS = 200


def splits_to_fill() -> SplitQuerySet:
    """Return the splits that tasks can be put into: neither frozen nor generated."""
    return Split.objects.existing().filter(
        Q(environment__is_procedural=False) | Q(is_curated=True), frozen=None
    )


def find_split(split: int) -> Split:
    """Return the split of that id. Raises: ActionRefused."""
    row = Split.objects.existing().filter(pk=split).first()
    if row is None:
        raise ActionRefused("This split no longer exists. Choose another one.")
    return row


def free_name(environment: int, name: str) -> str:
    """Return the name without spaces around it, if a new split can have it. Raises:
    ActionRefused."""
    name = name.strip()
    if not 0 < len(name) <= MAX_CHARACTERS:
        raise ActionRefused(
            f"A split's name has 1 to {MAX_CHARACTERS} characters; this one has {len(name)}."
        )
    if not name.isprintable() or set(name) & set("/\\"):
        raise ActionRefused(
            f"Split name {name!r} has a slash or a control character. Use letters, digits, spaces "
            "and other signs."
        )
    if Split.objects.existing().filter(environment=environment, name=name).exists():
        raise ActionRefused(
            f"There is a split {name!r} already. Choose another name, or copy the "
            "tasks to that split."
        )
    return name


@contextmanager
def making(environment: int, name: str, kind: str) -> Iterator[SplitChange]:
    """Enter the change whose commit makes a curated split.

    Without the commit nothing of the split is visible, and a deleted split of that name stays
    deleted.
    Raises: ActionRefused, SplitBusy.
    """
    kinds = [name for name, _ in Split.TYPES]
    if kind not in kinds:
        raise ActionRefused(f"Split type {kind!r} is unknown; use {', '.join(kinds)}.")
    with transaction.atomic():
        Environment.objects.select_for_update().get(
            pk=environment
        )  # makes two that take the same name wait for each other
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
        clear(split)  # what an interrupted making or deleting of a split of that name left behind
        yield change


@dataclass(frozen=True, slots=True)
class FreezeSplit:
    """Keep a split's content and order from changing; `Split.frozen_hash` identifies them."""

    split: int

    def plan(self) -> Plan:
        split = self._freezable()
        share = SplitShare(split.pk, split.name, split.size)
        sentence = (
            "Its tasks and their order can't change until you unfreeze it: edits and quarantines "
            "don't affect it."
        )
        sentences = (sentence, *leaks_of_split(split).sentences)
        return Plan(
            f"Freeze split {split.name!r}", split.size, 0, frozen=(share,), sentences=sentences
        )

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        split = self._freezable()
        with _recorded("freeze", author, split) as action:
            digest = freeze(split)
            action.settings({"frozen_hash": ""}, {"frozen_hash": digest})
            froze = f"Froze split {split.name!r}."
            return action.done(f"{froze} Its hash is {digest}.", 0, title=froze)

    def _freezable(self) -> Split:
        split = find_split(self.split)
        if split.frozen:
            raise ActionRefused(f"Split {split.name!r} is already frozen.")
        if split.is_generated:
            raise ActionRefused(
                f"The class generates the tasks of split {split.name!r}, so there is nothing to "
                "freeze. "
                "Save or import tasks as a new split and freeze that."
            )
        return split


@dataclass(frozen=True, slots=True)
class UnfreezeSplit:
    """Let a split change again. It stops serving tasks that were quarantined meanwhile."""

    split: int

    def plan(self) -> Plan:
        split, stale = self._frozen(), self._stale()
        share = (SplitShare(split.pk, split.name, len(stale)),) if stale else ()
        meanwhile = tasks(len(stale), "was", "were")
        quarantines = (
            f"{meanwhile} quarantined or released meanwhile, which takes effect when you unfreeze "
            "it."
        )
        is_left = split.environment.is_procedural and not split.is_curated
        generation = (
            "Its class generates tasks: from the next start of the server it generates those of "
            "this split."
        )
        edits = edited_meanwhile(SplitEntry.objects.filter(split=split, until=None))
        sentences = (*([quarantines] if stale else []), *edits, *([generation] if is_left else []))
        return Plan(f"Unfreeze split {split.name!r}", split.size, 0, share, sentences=sentences)

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        split, stale = self._frozen(), list[int]()

        def tell(count: int) -> None:
            progress(count, max(count, len(stale)))

        with (
            _recorded("unfreeze", author, split) as action,
            SplitChange(split, serves=split.is_served, unfreezes=True, progress=tell) as change,
        ):
            action.settings({"frozen_hash": split.frozen_hash}, {"frozen_hash": ""})
            # again, for tasks that were quarantined while these were staged
            while stale := self._stale():
                change.refresh(stale)
            follow_edits(change)
            if change.has_staged:
                commit(change)
            else:
                unfreeze(split)  # and readers need not read the split again
            return action.done(f"Unfroze split {split.name!r}.", 0)

    def _frozen(self) -> Split:
        split = find_split(self.split)
        if not split.frozen:
            raise ActionRefused(f"Split {split.name!r} is not frozen.")
        return split

    def _stale(self) -> list[int]:
        is_quarantined = Q(task__state="quarantined")
        wrong = (is_quarantined & Q(is_hidden=False)) | (~is_quarantined & Q(is_hidden=True))
        places = SplitEntry.objects.filter(wrong, split=self.split, until=None).order_by("position")
        return list(dict.fromkeys(places.values_list("task_id", flat=True).iterator(2000)))


def edited_meanwhile(places: QuerySet[SplitEntry]) -> list[str]:
    """Return that edits are served in place of superseded tasks at these places, if there are
    any."""
    count = len(_edits_at(places))
    return (
        [f"{tasks(count, 'was', 'were')} edited meanwhile; the edited content is served then."]
        if count
        else []
    )


def follow_edits(change: SplitChange) -> None:
    """Put what edits made of superseded tasks in their places."""
    change.replace(_edits_at(SplitEntry.objects.filter(split=change.split, until=None)))


def _edits_at(places: QuerySet[SplitEntry]) -> dict[int, int]:
    old = places.filter(task__replaced_by__isnull=False).order_by().values_list("task", flat=True)
    return successors_of(list(old.distinct()))


Seal = Literal["nobody", "keys", "people"]
"""For whom a split is sealed; if for people, then for keys, too."""


def seal_of(split: Split) -> Seal:
    return "people" if split.is_sealed_for_people else "keys" if split.is_sealed else "nobody"


SEALS: Mapping[Seal, Sequence[str]] = {
    "keys": (
        "API keys without the scope curate open its tasks by split and index, and list only "
        "indexes and hashes.",
        "Of their episodes they read the prompt and their own calls.",
        "People are not kept from it: they go on reading its tasks on pages.",
    ),
    "people": (
        "People who may not see hidden fields see the split and its figures: sizes, counts, means "
        "and curves.",
        "Its tasks and everything that was or will be played there do not exist for them, nor can "
        "they play it.",
        "API keys without the scope curate play its tasks, and read only the prompt and their own "
        "calls.",
    ),
}
"""What each means, as sentences."""
UNSEALS: Mapping[Seal, Sequence[str]] = {
    "nobody": (
        "Every API key that may play the split can then read its tasks, except for their "
        "hidden fields.",
    ),
    "keys": ("It stays sealed for API keys without the scope curate.",),
}
"""What it means that this is left of a seal."""
WITHOUT_KEYS = (
    "On this server it hides nothing: it needs no API keys, so everybody who reaches it is its "
    "operator."
)


LEVELS: Sequence[Seal] = ("nobody", "keys", "people")
"""From open to sealed for all."""


@dataclass(frozen=True, slots=True)
class SealSplit:
    """Keep keys without the scope `curate`, or people, too, from reading the tasks of a split, who
    go on playing them; or with `is_opening` let them read again.

    Neither does the other, so that a page that is out of date opens nothing.
    """

    split: int
    seal: Seal = "keys"
    """For whom it is sealed then."""
    is_opening: bool = False

    def plan(self) -> Plan:
        split = find_split(self.split)
        before, name = seal_of(split), repr(split.name)
        step = LEVELS.index(self.seal) - LEVELS.index(before)
        if self.is_opening:
            if step >= 0:
                raise ActionRefused(f"Split {name} is not sealed{self._whom}.")
            sentences = list(UNSEALS[self.seal])
            if before == "people":
                sentences.append(
                    "Everybody who may see pages can then read its tasks and what was played there."
                )
        else:
            if step <= 0:
                more = " Unseal it for people if only keys should not read it." if step else ""
                raise ActionRefused(f"Split {name} is already sealed for {before}.{more}")
            sentences = [*SEALS[self.seal], _open_elsewhere(split, self.seal)]
            if not conf.has_keys():
                sentences.append(WITHOUT_KEYS)
        verb = "Unseal" if self.is_opening else "Seal"
        return Plan(f"{verb} split {name}{self._whom}", split.size, 0, sentences=tuple(sentences))

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        """Save the row, for the security log. Raises: ActionRefused."""
        kind, verb = ("unseal", "Unsealed") if self.is_opening else ("seal", "Sealed")
        with transaction.atomic():
            # what the plan reads is still so at the end
            Split.objects.select_for_update().filter(pk=self.split).first()
            self.plan()
            split = find_split(self.split)
            with _recorded(kind, author, split) as action:
                values = {
                    "is_sealed": self.seal != "nobody",
                    "is_sealed_for_people": self.seal == "people",
                }
                action.settings({name: getattr(split, name) for name in values}, values)
                split.is_sealed, split.is_sealed_for_people = values.values()
                split.save(update_fields=list(values))
                return action.done(f"{verb} split {split.name!r}{self._whom}.", 0)

    @property
    def _whom(self) -> str:
        """Whom the change is about: an opening to keys is one for people."""
        if self.is_opening:
            return " for people" if self.seal == "keys" else ""
        return f" for {self.seal}"


def to_seal(split: Split, seal: Seal) -> SealSplit:
    """Return the action that makes a split sealed for `seal`."""
    return SealSplit(split.pk, seal, LEVELS.index(seal) < LEVELS.index(seal_of(split)))


def _open_elsewhere(split: Split, seal: Seal) -> str:
    """Return how many tasks of the split can be read although it is sealed, because they are in
    another one."""
    others = SplitEntry.objects.filter(task=OuterRef("task"), until=None, split__is_served=True)
    column = "split__is_sealed_for_people" if seal == "people" else "split__is_sealed"
    others = others.exclude(split=split).filter(**{column: False})
    both = (
        SplitEntry.objects.filter(Exists(others), split=split, until=None)
        .values("task")
        .distinct()
        .count()
    )
    if not both:
        return (
            "A task that is put into another split can be read there, unless that one is sealed, "
            "too."
        )
    return (
        f"{tasks(both, 'is', 'are')} also in another split and can be read there, until that one "
        "is sealed, too."
    )


def _recorded(
    kind: str, author: str, split: Split, reason: str = ""
) -> AbstractContextManager[RecordedAction]:
    return recorded(kind, author, reason, environment=split.environment_id, split=split.pk)


@dataclass(frozen=True, slots=True)
class DeleteSplit:
    """Delete a curated split. Its tasks stay, and running sessions continue."""

    split: int
    reason: str = ""

    def plan(self) -> Plan:
        split = self._deletable()
        sentences = (
            "Agents that request it get the error that there is no such split. Running sessions "
            "continue.",
            "Its tasks, their results and its episodes stay.",
            *(["They stay sealed for people."] if split.is_sealed_for_people else []),
        )
        share = SplitShare(split.pk, split.name, split.size)
        return Plan(f"Delete split {split.name!r}", split.size, 0, (share,), sentences=sentences)

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        split = self._deletable()
        with (
            _recorded("delete", author, split, self.reason) as action,
            SplitChange(
                split, wait_seconds=MAX_WAIT_SECONDS, serves=False, becomes={"is_served": False}
            ) as change,
        ):
            change.end()
            commit(change)
            action.settings({}, {"version": split.version + 1})
            security_log.note(
                "deleted", f"split {split.name} of {split.environment.name}", detail=self.reason
            )
            return action.done(f"Deleted split {split.name!r}.", 0)

    def _deletable(self) -> Split:
        split = find_split(self.split)
        if not split.is_curated:
            raise ActionRefused(
                f"Split {split.name!r} is declared by the class of {split.environment.name!r}. "
                "Remove it there."
            )
        if split.frozen:
            raise FrozenSplit(split)
        return split


def clear(split: Split) -> None:
    """Remove all places of a split that is not served, also those that it had when it was
    deleted."""
    while places := list(
        SplitEntry.objects.filter(split=split).values_list("pk", flat=True)[:BATCH]
    ):
        SplitEntry.objects.filter(pk__in=places).delete()
        give_way()
    SplitRemoval.objects.filter(split=split).delete()
