"""Freezing: a split whose content and order cannot change, and the hash that tells them apart from any other.

Driven by curation (`curation/splits.py`). Blocking.
"""

from __future__ import annotations

import hashlib

from django.utils import timezone

from environments.changes import BATCH, UNFROZEN, SplitChange
from environments.models import Split, SplitEntry


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
