"""What failed at a task: its episodes that ended by a failure of the environment, in clusters of
equal exceptions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Left

from environments.scoring.convention import ENVIRONMENT_FAILURES
from episodes.models import Episode, Step

MAX_NEWEST = 2000
"""Episodes of the task that are read, the newest ones."""
MAX_FAILURES = 500
"""Failed ones among them whose exception is looked up."""
MAX_LINKS = 5
MAX_CHARACTERS = 300
"""Length of an exception; longer ones that begin alike are equal."""


@dataclass(frozen=True, slots=True)
class FailureCluster:
    """Episodes that ended by equal exceptions."""

    exception: str
    """Its type and message; empty if none was recorded."""
    calls: Sequence[str]
    """What raised it, tools or "setup", as far as that is known."""
    episodes: Sequence[int]
    """Ids, the newest first."""

    @property
    def newest(self) -> Sequence[int]:
        return self.episodes[:MAX_LINKS]


def clusters_of(episodes: QuerySet[Episode]) -> list[FailureCluster]:
    """Return the clusters among the newest of these episodes, which are of one task, the largest
    first. Three queries at most."""
    rows = episodes.order_by("-pk").values_list("pk", "status", "cause", "is_probe")[:MAX_NEWEST]
    causes = {
        pk: cause
        for pk, status, cause, is_probe in rows
        if status == "ended" and cause in ENVIRONMENT_FAILURES and not is_probe
    }
    return clusters_among(causes)


def clusters_among(causes: Mapping[int, str]) -> list[FailureCluster]:
    """Return the clusters among failed episodes, of which the first MAX_FAILURES are read, the
    largest first. `causes`: by their ids, the newest first. Two queries at most."""
    ids = list(causes)[:MAX_FAILURES]
    if not ids:
        return []
    last = Step.objects.filter(episode=OuterRef("pk"), status="failed").order_by("-index")
    rows = Episode.objects.filter(pk__in=ids).values_list(
        "pk", Left("detail", MAX_CHARACTERS), Subquery(last.values("pk")[:1])
    )
    details = {pk: (detail, step) for pk, detail, step in rows}
    steps = Step.objects.filter(pk__in=[step for _, step in details.values() if step])
    exceptions = {
        pk: (tool, ": ".join(filter(None, (reason, error))))
        for pk, tool, reason, error in steps.values_list(
            "pk", "tool", "reason", Left("error", MAX_CHARACTERS)
        )
    }
    clusters = defaultdict[str, list[tuple[int, str]]](list)
    for pk in ids:
        detail, step = details.get(pk, ("", None))
        place = "setup" if causes[pk] == "setup_failed" else ""
        call, exception = exceptions.get(step, (place, detail))
        clusters[exception].append((pk, call))
    alike = [
        FailureCluster(
            exception, sorted({call for _, call in places if call}), [pk for pk, _ in places]
        )
        for exception, places in clusters.items()
    ]
    return sorted(alike, key=lambda cluster: -len(cluster.episodes))
