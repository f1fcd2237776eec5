"""Two or more runs on the tasks they share. `compare.py` calls it for `?runs=`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from environments.display.task_line import summary, summary_field
from environments.models import Task
from environments.scoring.definition import definition_of
from environments.scoring.returns import RETURNS
from environments.service import hidden_fields
from episodes.analytics.run_comparison import paired
from episodes.analytics.runs import environment_of
from episodes.dashboard.curve_chart import drawn
from episodes.dashboard.curve_query import CurveAsked
from episodes.dashboard.curves import panel_of
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.parameters import BadFilter, chosen
from episodes.models import Run

SHOWN_TASKS = 50
MIN_BLOCKS = 40
"""Of the curve of each run: it is one of three things on the page, and the page of curves draws a finer one."""


def compare_runs(request: HttpRequest) -> HttpResponse:
    """`?runs=3,4`, the first is what the others are measured against. Raises: BadFilter."""
    given = {name: text for name, text in request.GET.dict().items() if text.strip()}
    _check_names(given)
    asked = CurveAsked.parse(given)
    runs = _runs(asked.runs, given["runs"])
    environment = environment_of(runs[0])
    return_ = chosen(RETURNS)("return", given["return"]) if "return" in given else None
    definition = definition_of(environment, return_)
    only_return = EpisodeFilter(definition=definition.return_)
    asked = replace(asked, filter=only_return, threshold=definition.threshold, environment=environment)
    pairing = paired(runs, definition, SHOWN_TASKS)
    tasks = Task.objects.select_related("environment").in_bulk([one.task for one in pairing.tasks])
    context = panel_of(request, drawn(asked, MIN_BLOCKS)) | {
        "runs": runs,
        "environment": environment,
        "own_definition": environment.default_return if environment else "",
        "pairing": pairing,
        "attempted": list(zip(runs, pairing.attempted, strict=True)),
        "rows": [(one, _line(tasks.get(one.task))) for one in pairing.tasks],
        "definition": definition.return_,
        "threshold": definition.threshold,
        "curve_query": asked.filter.to_query(runs=",".join(str(run.pk) for run in runs), x=asked.x, y=asked.y),
    }
    return render(request, "episodes/compare_runs.html", context)


def _check_names(given: Mapping[str, str]) -> None:
    """Raises: BadFilter."""
    for name in ("episodes", "row"):
        if name in given:
            raise BadFilter(name, given[name], "it belongs to a comparison of episodes; leave it or runs= out")


def _line(task: Task | None) -> str:
    """Of a task in the table; one that was pruned meanwhile has none."""
    if task is None:
        return ""
    return summary(task.spec, summary_field(task.environment.task_schema), hidden_fields(task.environment.name))


def _runs(ids: tuple[int, ...], text: str) -> list[Run]:
    """In the order given. Raises: BadFilter."""
    found = Run.objects.in_bulk(ids)
    if len(ids) < 2:
        raise BadFilter("runs", text, "it takes two numbers of runs or more, such as 3,4")
    if missing := [str(pk) for pk in ids if pk not in found]:
        raise BadFilter(
            "runs", text, f"there is no run {', '.join(missing)}; numbers of runs stand in the addresses of their pages"
        )
    return [found[pk] for pk in ids]
