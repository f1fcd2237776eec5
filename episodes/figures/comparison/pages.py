"""The comparison page: two episodes side by side, or several runs on the tasks that they share."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.database.storable import id_in
from environments.filtering.addresses import refuse_others, takes
from environments.filtering.filters import query_string
from environments.filtering.parameters import BadFilter, trimmed
from environments.models import Task, Viewer
from environments.scoring.definition import DEFINITION_PARAMETERS
from environments.service import task_line
from environments.tasks.task_facts import task_names
from episodes.attempts.file_headers import coverage_header, csv_response, definition_header
from episodes.browsing.task_lines import name_tasks, task_line_of
from episodes.dashboard.guards import refused_blind
from episodes.dashboard.replay import number
from episodes.dashboard.view_parameters import definitions_context, return_in
from episodes.figures.comparison.comparison_query import (
    MAX_FILE_TASKS,
    OWN,
    comparison_of,
)
from episodes.figures.comparison.conclusions import conclusions_of
from episodes.figures.comparison.measures import MEASURES
from episodes.figures.comparison.ranking import measures_of, ranking_of
from episodes.figures.comparison.run_comparison import MAX_IN_ORDER
from episodes.figures.comparison.run_settings import settings_of
from episodes.figures.curves.curve_parameters import PARAMETERS as SWITCHES
from episodes.figures.curves.curve_series import curve_charts
from episodes.figures.curves.pages import panel_of
from episodes.figures.curves.revision_marks import pooled_in
from episodes.figures.run_splits import in_split, labelled
from episodes.figures.scopes import MAX_COMPARED, scope_of
from episodes.filtering.columns import with_list_columns
from episodes.models import Episode
from episodes.transcript import comparison as episode_comparison
from episodes.transcript.peers import pairs_to_compare
from episodes.transcript.steps import TranscriptView
from episodes.visibility import blind_to

MAX_TEXT_CHARACTERS = 2_000
MAX_TASKS = 50
MAX_RANKED_SETTINGS = 4
"""Settings that fit into the rows of a ranking; more have a table of their own."""
MIN_BLOCKS = 40
"""Minimum number of blocks in the curve of a run. The page of curves draws a finer one."""


@require_safe
@never_cache
@takes(
    "episodes",
    "row",
    *OWN,
    "revision",
    "environment",
    "split",
    *DEFINITION_PARAMETERS,
    *SWITCHES,
)
def compare(request: HttpRequest) -> HttpResponse:
    """Compare `episodes=1,2` or `runs=3,4`; without either, return the page on which to choose.
    Raises: BadFilter."""
    if request.GET.get("runs", "").strip(", "):
        return compare_runs(request)
    if request.GET.get("episodes", "").strip(", "):
        return compare_episodes(request)
    refuse_others(request, ("episodes", "runs"))
    visible = Episode.objects.seen_by(viewer_of(request.user))
    pairs = pairs_to_compare(visible)
    episodes = with_list_columns(visible).in_bulk([pk for pair in pairs for pk in pair])
    name_tasks(episodes.values())
    suggestions = [
        (episodes[failure], episodes[success], task_line_of(episodes[failure]))
        for failure, success in pairs
        if failure in episodes and success in episodes  # neither was deleted meanwhile
    ]
    return render(request, "figures/compare_start.html", {"pairs": suggestions})


def compare_episodes(request: HttpRequest) -> HttpResponse:
    """Return the page of two episodes aligned by step. The parameter `row` selects the window that
    holds that row. Raises: BadFilter."""
    text = request.GET.get("episodes", "")
    numbers = [id_in(trimmed(part)) for part in text.split(",")] if len(text) < 200 else []
    ids = list(dict.fromkeys(pk for pk in numbers if pk is not None))
    if len(ids) != 2 or None in numbers:
        reason = "give two different episode numbers separated by a comma, such as episodes=12,15"
        raise BadFilter("episodes", text, reason)
    rows = Episode.objects.seen_by(viewer_of(request.user))
    rows = rows.select_related("environment", "split", "task", "run", "revision")
    episodes = rows.defer("task__spec", "task__folded").in_bulk(ids)
    if blind := blind_to(request.user).filter(pk__in=list(episodes)).first():
        return refused_blind(request, blind)
    if missing := [pk for pk in ids if pk not in episodes]:
        reason = f"there is no episode {missing[0]}. It may have been deleted; choose another"
        raise BadFilter("episodes", text, reason)
    left_side, right_side = (episodes[pk] for pk in ids)
    name_tasks((left_side, right_side))
    definition = return_in(request, left_side.environment)
    view = TranscriptView(definition=definition, characters=MAX_TEXT_CHARACTERS)
    context = {
        "left": left_side,
        "right": right_side,
        "sides": [(episode, episode.returns[definition]) for episode in (left_side, right_side)],
        "turned": f"{right_side.pk},{left_side.pk}",
        "definition": definition,
        "own_definition": left_side.environment.default_return,
        "comparison": episode_comparison.comparison_of(
            left_side, right_side, view, number(request, "row")
        ),
    }
    return render(request, "figures/compare.html", context)


def compare_runs(request: HttpRequest) -> HttpResponse:
    """Return the page for `?runs=3,4` or names, which compares the runs with one of them,
    or its CSV file. Raises: BadFilter."""
    viewer = viewer_of(request.user)
    is_file = request.GET.get("format") == "csv"
    query, pairing = comparison_of(
        request.GET.dict(), viewer, MAX_FILE_TASKS if is_file else MAX_TASKS
    )
    if is_file:
        headers = definition_header(pairing.definition) | coverage_header(pairing.coverage)
        return csv_response("compared-runs.csv", query.csv_lines(pairing, viewer), headers)
    drawing = curve_charts(query.curves, MIN_BLOCKS)
    settings = settings_of(query.runs)
    different = [setting for setting in settings if setting.is_different]
    is_ranked = len(query.runs) > MAX_IN_ORDER
    measures = {line.measure for line in pairing.measures}
    conclusions = conclusions_of(pairing)
    values_by_run = [
        [setting.values[place] for setting in different] for place in range(len(query.runs))
    ]
    has_few_settings = is_ranked and len(different) <= MAX_RANKED_SETTINGS
    lines = task_lines([pair.task for pair in pairing.tasks], viewer)
    of_part = query_string(**in_split(query.split), revision=query.revision.name)
    switches = request.GET.copy()
    switches["x"], switches["y"] = query.curves.x, ",".join(query.curves.figures)
    panel = panel_of(request, drawing)
    if query.left_out:
        count = MAX_COMPARED + query.left_out
        panel["notes"] = [
            f"The first {MAX_COMPARED} of {count:,} runs are compared.",
            *panel["notes"],
        ]
    context = panel | {
        "most_runs": MAX_COMPARED,
        "switches": switches,
        "runs": query.runs,
        "colours": {int(line.key): line.colour for line in drawing.series},
        "baseline": query.runs[pairing.baseline],
        "ranking": ranking_of(query.runs, pairing, values_by_run) if is_ranked else [],
        "ranked_measures": measures_of(pairing),
        "is_ranked": is_ranked,
        "apart": query.apart,
        "picker_address": reverse("compare"),
        "comparison": query,
        "pairing": pairing,
        "different": different,
        "has_few_settings": has_few_settings,
        "settings_of_runs": list(zip(query.runs, values_by_run, strict=True)),
        "equal": [setting for setting in settings if not setting.is_different],
        "conclusions": conclusions,
        "may_exploit": any(conclusion.is_warning for conclusion in conclusions),
        "measures": [measure for measure in MEASURES if measure in measures],
        "has_mixed_conventions": pairing.definition.convention is None,
        "revision": query.revision.name,
        "of_part": "&" + of_part if of_part else "",
        "splits": labelled(query.splits),
        "split": query.split,
        "are_together": query.curves.are_together,
        "pooled": pooled_in([scope_of(run) for run in query.runs]),
        "attempted": list(zip(query.runs, pairing.attempted, pairing.coverage, strict=True)),
        "rows": [(pair, *lines[pair.task]) for pair in pairing.tasks if pair.task in lines],
        "has_several_environments": len({task.environment_id for *_, task in lines.values()}) > 1,
        **definitions_context(pairing.definition, query.curves.definition, drawing.environment),
        "curve_query": query.curves.to_query(),
    }
    return render(request, "figures/compare_runs.html", context)


def task_lines(ids: list[int], viewer: Viewer) -> dict[int, tuple[str, str, Task]]:
    """Return those of the tasks that exist for the person, each as its name, its line in lists and
    its row."""
    tasks = Task.objects.seen_by(viewer).select_related("environment").in_bulk(ids)
    names = task_names(list(tasks))
    return {
        pk: (names[pk], task_line(task.environment, task.spec), task) for pk, task in tasks.items()
    }
