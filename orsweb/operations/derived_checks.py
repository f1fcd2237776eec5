"""Checks of what is derived from the record: statistics of tasks, curves, activity, tools,
components, search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import Aggregate, Count, Max, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from environments.models import Environment
from episodes.models import (
    Activity,
    CurveBlock,
    Episode,
    LatestTotal,
    LooseBlob,
    Progress,
    RunTotal,
    StepSpan,
    TranscriptText,
)
from episodes.rollups.follower import make_parts
from episodes.rollups.progress import newest_end
from episodes.rollups.recount import stale
from episodes.rollups.task_statistics import COLUMNS, recorded_sql
from orsweb.operations.installation_checks import DoctorCheck, DoctorProblem, listing, rows

MAX_LAG = 10_000
"""Endings that the follower may have left to follow."""
REBUILD = "Run rebuild_statistics; the server may be running."
_STORED = "environments_taskstatistics"
_KINDS = "no_call > 0 OR expired > 0 OR interrupted > 0 OR env_error > 0"

Scope = tuple[str, int]
"""What figures are of, such as an environment or a run, and its id."""


def check_task_statistics() -> Iterator[DoctorProblem]:
    """Compare statistics of tasks with the record. While agents play, some may have ended between
    the two queries."""
    due = {environment.pk for environment in stale()}
    if due:
        yield DoctorProblem(
            f"Statistics of {len(due)} environments wait for a recount.",
            "A running server recounts them; otherwise run rebuild_statistics.",
            is_grave=False,
        )
    for environment in Environment.objects.exclude(pk__in=due):
        columns = ", ".join(f'"{name}"' for name in (*COLUMNS[:7], *COLUMNS[10:14]))
        stored_sql = f"SELECT {columns} FROM {_STORED} WHERE environment_id = %s AND (attempts > 0 OR {_KINDS})"  # nosec B608 # only our own names
        record_sql = f"SELECT * FROM ({recorded_sql('e.environment_id = %s')}) AS counted"  # nosec B608 # only our own names
        stored_rows = {row[:4]: row[4:] for row in rows(stored_sql, [environment.pk])}
        record_rows = {
            row[:4]: (*row[4:7], *row[10:14]) for row in rows(record_sql, [environment.pk])
        }
        record_rows = {key: row for key, row in record_rows.items() if row[0] or any(row[3:])}
        keys = stored_rows.keys() | record_rows.keys()
        wrong = {key[0] for key in keys if stored_rows.get(key) != record_rows.get(key)}
        if tasks := sorted(int(str(task)) for task in wrong):
            yield DoctorProblem(
                f"Statistics of {len(tasks):,} tasks of {environment} differ from their episodes: "
                f"{listing(tasks)}.",
                REBUILD,
            )


_ORPHANED_COMPONENTS = """
    SELECT c.id FROM episodes_episodecomponent AS c LEFT JOIN episodes_episode AS e ON e.id = c.episode_id
    WHERE e.id IS NULL
"""


def _progress_of(name: str) -> int:
    return Progress.objects.filter(name=name).aggregate(place=Max("end_number"))["place"] or 0


def check_lag() -> Iterator[DoctorProblem]:
    newest = newest_end()
    for part in make_parts():
        if newest - _progress_of(part.name) > MAX_LAG:
            yield DoctorProblem(
                f"{part.name} has followed {max(0, _progress_of(part.name)):,} of {newest:,} endings.",
                "Wait for the server, or run rebuild_statistics; the log says does_not_follow if "
                "it fails.",
            )


def check_blocks() -> Iterator[DoctorProblem]:
    """Compare the number of episodes in the blocks of each scope with the episodes up to the last
    block."""
    blocks = CurveBlock.objects.filter(level=0).order_by().values_list("scope", "scope_id")
    sums, counts = dict[Scope, int](), dict[Scope, int]()
    for scope, pk, episodes, last in blocks.annotate(n=Sum("episodes"), last=Max("last_end")):
        sums[scope, pk] = episodes
        counts[scope, pk] = _ended(last).filter(**{scope: pk}).count()
    yield from _differences("Curves do not match the episodes", sums, counts)


def check_spans() -> Iterator[DoctorProblem]:
    place = _progress_of("steps")
    spans = StepSpan.objects.order_by().values_list("scope", "scope_id").annotate(n=Sum("episodes"))
    sums = {(scope, pk): episodes for scope, pk, episodes in spans}
    episodes_with_step = _ended(place).filter(run_step__isnull=False)
    counts = {(scope, pk): episodes_with_step.filter(**{scope: pk}).count() for scope, pk in sums}
    if place == _progress_of("steps"):
        yield from _differences("Curves by training step do not match the episodes", sums, counts)


def check_latest_totals() -> Iterator[DoctorProblem]:
    """Compare the number of episodes in the totals of the latest training steps with the spans that
    they sum up."""
    own = {name: OuterRef(name) for name in ("scope_id", "environment_id", "split_id", "width")}
    spans = StepSpan.objects.filter(scope="run", number__gte=OuterRef("number"), **own).order_by()
    episodes = spans.values("scope_id").annotate(n=Sum("episodes")).values("n")
    totals = LatestTotal.objects.exclude(split_id=LatestTotal.ALL_SPLITS)
    sums, counts = dict[Scope, int](), dict[Scope, int]()
    for run, n, there in totals.values_list(
        "scope_id", "episodes", Coalesce(Subquery(episodes), 0)
    ):
        sums["run", run] = sums.get(("run", run), 0) + n
        counts["run", run] = counts.get(("run", run), 0) + there
    yield from _differences("Totals of latest training steps do not match the spans", sums, counts)


def check_activity() -> Iterator[DoctorProblem]:
    days = Activity.objects.filter(period=86400)
    sums = _by("environment", days, Sum("episodes"))
    counts = _by("environment", _ended(_progress_of("activity")), Count("pk"))
    yield from _differences("Activity does not match the episodes", sums, counts)


def check_run_totals() -> Iterator[DoctorProblem]:
    totals = RunTotal.objects.order_by().values_list("scope_id").annotate(n=Sum("episodes"))
    sums = {("run", pk): episodes for pk, episodes in totals}
    counts = _by("run", _ended(_progress_of("run_totals")).exclude(run=None), Count("pk"))
    yield from _differences("Totals of runs do not match the episodes", sums, counts)


def _ended(place: int) -> QuerySet[Episode]:
    """Return the episodes that ended up to `place`."""
    return Episode.objects.filter(status="ended", end_number__lte=place).order_by()


def _by(scope: str, rows: QuerySet[Any], amount: Aggregate) -> dict[Scope, int]:
    pairs = rows.order_by().values_list(f"{scope}_id").annotate(n=amount)
    return {(scope, pk): count for pk, count in pairs}


def _differences(
    sentence: str, sums: Mapping[Scope, int], counts: Mapping[Scope, int]
) -> Iterator[DoctorProblem]:
    """Yield the problem that the counts of some scopes differ, if they do."""
    wrong = [
        f"{scope} {pk} ({sums.get((scope, pk), 0):,} instead of {counts.get((scope, pk), 0):,})"
        for scope, pk in sorted(sums.keys() | counts.keys())
        if sums.get((scope, pk), 0) != counts.get((scope, pk), 0)
    ]
    if wrong:
        yield DoctorProblem(f"{sentence}: {listing(wrong)}.", REBUILD)


def check_search() -> Iterator[DoctorProblem]:
    documents, place = TranscriptText.objects.filter(part=0).count(), _progress_of("text")
    there = _ended(place).count()
    # more may wait to be indexed again
    if documents < there or (documents > there and place >= newest_end()):
        yield DoctorProblem(f"Search covers {documents:,} of {there:,} episodes.", REBUILD)


def check_components() -> Iterator[DoctorProblem]:
    if orphans := [pk for (pk,) in rows(_ORPHANED_COMPONENTS)]:
        sentence = f"{len(orphans):,} components of rewards belong to deleted episodes."
        yield DoctorProblem(sentence, REBUILD)


def check_loose_blobs() -> Iterator[DoctorProblem]:
    if waiting := LooseBlob.objects.count():
        yield DoctorProblem(
            f"{waiting:,} blobs wait for a check whether they are still needed.",
            "A running server checks them.",
            is_grave=False,
        )


DERIVED_CHECKS = (
    DoctorCheck("Derived figures are up to date", check_lag),
    DoctorCheck("Task statistics match their episodes", check_task_statistics),
    DoctorCheck("Curves match the episodes", check_blocks),
    DoctorCheck("Curves by training step match the episodes", check_spans),
    DoctorCheck("Totals of latest training steps match the spans", check_latest_totals),
    DoctorCheck("Activity matches the episodes", check_activity),
    DoctorCheck("Totals of runs match the episodes", check_run_totals),
    DoctorCheck("Search covers all episodes", check_search),
    DoctorCheck("Components of rewards belong to existing episodes", check_components),
    DoctorCheck("No blob waits for deletion", check_loose_blobs),
)
