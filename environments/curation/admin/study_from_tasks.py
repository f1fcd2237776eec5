"""The way from chosen tasks to the form of a new study, which belongs to the pages for people who
play."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from environments.curation.admin.bulk import back_to_list, chosen_tasks
from environments.curation.selection import Selection
from environments.errors import OrsError
from environments.models import Split
from environments.tasks.split_indexes import served_indexes
from environments.tasks.task_places import first_positions, places_of_tasks
from environments.tasks.task_states import SERVED

MAX_NUMBERED = 1_000
"""Tasks that are named by their numbers in a split; more have to be saved as a split first."""


def study_redirect(request: HttpRequest) -> HttpResponse:
    """Redirect from the list to the form of a study of the tasks that were chosen there, or back
    with the reason."""
    selection = chosen_tasks(request, request.POST)
    try:
        query = study_query(selection)
    except OrsError as refusal:
        messages.error(request, str(refusal))
        return HttpResponseRedirect(back_to_list(request.POST))
    return HttpResponseRedirect(f"{reverse('study_new')}?{query}")


def study_query(selection: Selection) -> str:
    """Return the query string of the form. Raises: OrsError for tasks that are not of one split, or
    too many."""
    if selection.ids == (0,):
        raise OrsError("No task is chosen. Check some in the list, or choose all that match.")
    splits = Split.objects.seen_by(selection.viewer).filter(is_served=True)
    split = splits.filter(
        pk__in=[selection.split] if selection.split else _common_splits(selection.ids)
    ).first()
    if split is None or split.is_generated:
        raise OrsError(
            "The tasks of a study are those of one split: choose one above the list, or "
            "save them as one."
        )
    parameters = {"tasks": f"split/{split.pk}"}
    if (
        selection.ids
        or selection.tag
        or selection.source
        or selection.flags
        or selection.state != SERVED
    ):
        parameters["numbers"] = _numbers(selection, split)
    else:
        parameters |= {"search": selection.search, "bucket": selection.bucket}
    return urlencode({name: value for name, value in parameters.items() if value})


def _common_splits(tasks: tuple[int, ...]) -> list[int]:
    """Return the splits that have all of the tasks; none without tasks."""
    tasks_of = defaultdict[int, set[int]](set)
    for task in places_of_tasks(tasks[: MAX_NUMBERED + 1]):
        tasks_of[task.split.pk].add(task.task)
    return [split for split, members in tasks_of.items() if members >= set(tasks)]


def _numbers(selection: Selection, split: Split) -> str:
    """Return the numbers of the tasks in the split, such as `0, 3, 5-9`."""
    batch = selection.batch(limit=MAX_NUMBERED + 1)
    if len(batch.ids) > MAX_NUMBERED:
        raise OrsError(
            f"More than {MAX_NUMBERED:,} tasks are chosen. Save them as a new split, and make a "
            "study of that."
        )
    positions = list(first_positions(split, batch.ids).values())
    numbers = sorted(served_indexes(split, positions).values())
    if len(numbers) < len(batch.ids):
        raise OrsError(
            f"{split} does not serve all of the chosen tasks. Choose tasks that it serves."
        )
    ranges = list[str]()
    # in a range, numbers rise as their places do
    for _, rows in groupby(enumerate(numbers), key=lambda row: row[1] - row[0]):
        run = [number for _, number in rows]
        ranges.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(ranges)
