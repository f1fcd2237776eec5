"""Lists of tasks that depend on code alone (`fixed_tasks`): a class is asked again only when its
code has changed.

Only lists of code that is known completely are taken as known: of everything else a change could go
unnoticed, and old tasks would be served without a word. Those classes are asked at each start, as
all others are.
"""

from __future__ import annotations

import sys

import structlog
from django.db.models import QuerySet

from environments.authoring.hosted_environment import HostedEnvironment, digest_of
from environments.models import Environment, Split
from environments.tasks.sync_report import SplitSync

log = structlog.get_logger(__name__)


def known_lists(hosted: HostedEnvironment) -> list[SplitSync]:
    """Return what a sync would report if the rows have the lists of this code; empty if the class
    has to be asked."""
    code = _code_of_lists(hosted)
    if not code or not Environment.objects.filter(name=hosted.name, listed_code=code).exists():
        return []
    served = {split.name: split for split in splits_of_class(hosted.name).filter(is_served=True)}
    if served.keys() != set(declared(hosted)):
        return []
    return [SplitSync(hosted.name, name, unchanged=served[name].size) for name in declared(hosted)]


def note_code(hosted: HostedEnvironment, written: list[SplitSync]) -> None:
    """Note which code the rows follow, unless a split does not and has to be reported at each
    start."""
    code = _code_of_lists(hosted)
    if code and not any(split.is_frozen or split.is_taken for split in written):
        Environment.objects.filter(name=hosted.name).update(listed_code=code)
    elif not code and hosted.has_fixed_tasks and hosted.revision is not None:
        unread = hosted.revision.unread or "its source files"
        log.info(
            "fixed_tasks has no effect, because some code is unknown",
            environment=hosted.name,
            unknown=unread,
        )


def forget_code(hosted: HostedEnvironment) -> None:
    """Note that the rows may follow no code, before they change: an interrupted sync leaves lists
    of two."""
    Environment.objects.filter(name=hosted.name).exclude(listed_code="").update(listed_code="")


def _code_of_lists(hosted: HostedEnvironment) -> str:
    """Return a digest of the code and the Python that make the lists; empty if they depend on more,
    or on unknown."""
    revision = hosted.revision
    if (
        not hosted.has_fixed_tasks
        or revision is None
        or not revision.source_hash
        or revision.unread
    ):
        return ""
    return digest_of(hosted.origin, revision.code, sys.version)


def splits_of_class(environment: str) -> QuerySet[Split]:
    """Return the splits of an environment that its class has declared, now or once."""
    return Split.objects.filter(environment__name=environment, is_curated=False)


def declared(hosted: HostedEnvironment) -> list[str]:
    """Return the names of the splits that the class declares now."""
    return [split.name for split in hosted.splits]
