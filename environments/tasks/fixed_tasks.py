"""Lists of tasks that depend on code alone (`fixed_tasks`): a class lists its tasks again only when
its code has changed.

That holds only for code that is known completely: of other code a change could go unnoticed, and
old tasks would be served without a word. Those classes list their tasks at each start, as all
others do.
"""

from __future__ import annotations

import sys

import structlog
from django.db.models import QuerySet

from environments.authoring.hosted_environment import HostedEnvironment, digest_of
from environments.models import Environment, Split
from environments.tasks.sync_report import SplitSync

log = structlog.get_logger(__name__)


def known_lists(environment: HostedEnvironment) -> list[SplitSync]:
    """Return what a sync would report if the rows have the lists of this code; else nothing."""
    name, code = environment.name, _code_of_lists(environment)
    if not code or not Environment.objects.filter(name=name, listed_code=code).exists():
        return []
    sizes = dict(splits_of_class(name).filter(is_served=True).values_list("name", "size"))
    names = split_names(environment)
    if sizes.keys() != set(names):
        return []
    return [SplitSync(name, split, unchanged=sizes[split]) for split in names]


def note_code(environment: HostedEnvironment, reports: list[SplitSync]) -> None:
    """Note which code the rows follow, unless a split does not and has to be reported at each
    start."""
    code, revision = _code_of_lists(environment), environment.revision
    if code and not any(report.is_frozen or report.is_taken for report in reports):
        Environment.objects.filter(name=environment.name).update(listed_code=code)
    elif not code and environment.has_fixed_tasks and revision is not None:
        log.info(
            "fixed_tasks has no effect, because some code is unknown",
            environment=environment.name,
            unknown=revision.unread or "its source files",
        )


def forget_code(environment: str) -> None:
    """Note that the rows may follow no code, before they change: an interrupted sync leaves lists
    of two."""
    Environment.objects.filter(name=environment).exclude(listed_code="").update(listed_code="")


def _code_of_lists(environment: HostedEnvironment) -> str:
    """Return a digest of the code and the Python that make the lists; empty if they depend on more,
    or on unknown code."""
    revision = environment.revision
    if not environment.has_fixed_tasks or revision is None or revision.unread:
        return ""
    if not revision.source_hash:
        return ""
    return digest_of(environment.origin, revision.code, sys.version)


def splits_of_class(environment: str) -> QuerySet[Split]:
    """Return the splits of an environment that its class declares, or once did."""
    return Split.objects.filter(environment__name=environment, is_curated=False)


def split_names(environment: HostedEnvironment) -> list[str]:
    """Return the names of the splits that the class declares now."""
    return [split.name for split in environment.splits]
