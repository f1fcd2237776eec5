"""The comparison of two or more runs on the tasks that they share. `compare.py` calls it for
`?runs=`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from environments.access.privacy import viewer_of
from environments.filtering.filters import query_string
from environments.filtering.parameters import BadFilter, definition_in
from environments.models import Split, Task, Viewer
from environments.scoring.definition import definitions_in_force
from environments.service import task_line
from environments.tasks.task_facts import task_names
from episodes.analytics.curve_query import CurveQuery
from episodes.analytics.curve_series import drawn
from episodes.analytics.revision_marks import pooled_in
from episodes.analytics.run_comparison import paired
from episodes.analytics.run_splits import (
    SplitChoice,
    common_split,
    in_split,
    labelled,
    of_one_split,
    splits_of,
)
from episodes.analytics.scopes import MAX_SERIES, scope_of
from episodes.dashboard.curves import panel_of
from episodes.dashboard.view_parameters import definitions_context, revision_asked
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Run

SHOWN_TASKS = 50
MIN_BLOCKS = 40
"""Minimum number of blocks in the curve of a run. The page of curves draws a finer one."""


def compare_runs(request: HttpRequest) -> HttpResponse:
    """Return the page for `?runs=3,4` or names, which compares every other run with the first.
    Raises: BadFilter."""
    given = {name: text for name, text in request.GET.dict().items() if text.strip()}
    _check_names(given)
    viewer = viewer_of(request.user)
    asked = CurveQuery.parse(given, viewer)
    runs = _runs(asked.runs[:MAX_SERIES], given["runs"], viewer)
    only_definition = EpisodeFilter.of_definition(definition_in(given), viewer)
    name, revisions = revision_asked(request)
    splits, split = _splits(runs, SplitChoice.parse(given), viewer)
    filters = replace(only_definition, revision=asked.filter.revision)
    asked = replace(asked, filter=of_one_split(filters, split))
    pairing = paired(runs, definitions_in_force(asked.definition), SHOWN_TASKS, revisions, split)
    tasks = tasks_shown([one.task for one in pairing.tasks], viewer)
    names = task_names(list(tasks))
    found = drawn(asked, MIN_BLOCKS)
    context = panel_of(request, found) | {
        "runs": runs,
        "picker_address": reverse("compare"),
        "pairing": pairing,
        "has_mixed_conventions": pairing.definition.convention is None,
        "revision": name,
        "of_part": "&" + query_string(**in_split(split), revision=name) if name or split else "",
        "splits": labelled(splits),
        "split": split,
        "are_together": asked.are_together,
        "pooled": pooled_in([scope_of(run) for run in runs]),
        "attempted": list(zip(runs, pairing.attempted, pairing.coverage, strict=True)),
        "rows": [
            (
                one,
                names[one.task],
                task_line(tasks[one.task].environment, tasks[one.task].spec),
                tasks[one.task],
            )
            for one in pairing.tasks
            if one.task in tasks
        ],
        "has_several_environments": len({task.environment_id for task in tasks.values()}) > 1,
        **definitions_context(pairing.definition, asked.definition, found.environment),
        "curve_query": asked.to_query(),
    }
    return render(request, "episodes/compare_runs.html", context)


def _splits(
    runs: Sequence[Run], choice: SplitChoice, viewer: Viewer
) -> tuple[list[Split], Split | None]:
    """Return the splits to choose from, if a run played several, and the one that is compared;
    None: all of them.

    Raises: BadFilter.
    """
    known = splits_of([run.pk for run in runs], viewer)
    played = [splits for run in runs if (splits := known.get(run.pk))]
    every = list(dict.fromkeys(split for splits in played for split in splits))
    if choice.split is not None or choice.environment is not None:
        return every, choice.of(every)
    if choice.are_together or all(len(splits) < 2 for splits in played):
        return every if any(len(splits) > 1 for splits in played) else [], None
    return every, common_split(played) or played[0][0]


def _check_names(given: Mapping[str, str]) -> None:
    """Refuse parameters that belong to a comparison of episodes. Raises: BadFilter."""
    for name in ("episodes", "row"):
        if name in given:
            raise BadFilter(
                name, given[name], "it belongs to a comparison of episodes; remove it or runs="
            )


def tasks_shown(ids: list[int], viewer: Viewer) -> dict[int, Task]:
    """Return those of the tasks that exist for the person, with their environments."""
    return Task.objects.seen_by(viewer).select_related("environment").in_bulk(ids)


def _runs(ids: tuple[int, ...], text: str, viewer: Viewer) -> list[Run]:
    """Return the runs in the order of `ids`. Raises: BadFilter."""
    found = Run.objects.seen_by(viewer).in_bulk(ids)
    if missing := [str(pk) for pk in ids if pk not in found]:
        raise BadFilter(
            "runs",
            text,
            f"there is no run {', '.join(missing)}; a run's number is in the address of its page",
        )
    runs = [found[pk] for pk in ids]
    if len(runs) < 2:
        raise BadFilter(
            "runs",
            text,
            f"it names {runs[0].name} alone; add a run, as in runs={ids[0]},{ids[0] + 1}",
        )
    return runs
