"""Pages that export the selected tasks as a streamed file. Used by `environments.curation.admin.task`."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import slugify

from environments.curation.admin.bulk import chosen_tasks, selection_of
from environments.curation.selection import Selection
from environments.curation.transfer.exporting import MEDIA_TYPES, exported
from environments.curation.transfer.source import FORMATS
from environments.errors import OrsError, OverQuota
from environments.files.streaming import StreamedFile, download_of
from environments.filtering.addresses import flag_asked
from environments.filtering.parameters import BadFilter
from environments.models import Environment, Split
from environments.tasks.task_states import SERVED

MAX_COUNTED_TASKS = 100_000
MAX_COUNT_SECONDS = 0.25

ABOUT = {
    "jsonl": ("JSON Lines", "one task a line, each spec exactly as it is"),
    "json": ("JSON", "one array, each spec exactly as it is"),
    "csv": ("CSV", "one row a task, for spreadsheets"),
    "parquet": ("Parquet", "columns with types, for data frames"),
}


def export_view(request: HttpRequest, context: dict[str, Any]) -> HttpResponseBase:
    """Return the page that asks for a format, or the file if the address names one."""
    selection = selection_of(
        request, request.GET.dict(), also=("format", "plain"), may_be_blank=False
    )
    format, is_plain = request.GET.get("format", ""), flag_asked(request, "plain")
    if format and format not in FORMATS:
        raise BadFilter("format", format, f"allowed are {', '.join(FORMATS)}")
    if not format:
        return _page(request, selection, context)
    pieces = exported(selection, format, has_labels=not is_plain)
    what = f"tasks as {format}: {urlencode(selection.values()) or 'all'}"
    try:
        first = next(pieces)
        download = download_of(request, what)
    except OrsError as error:
        messages.error(request, str(error))
        page = _page(request, selection, context)
        page.status_code = 429 if isinstance(error, OverQuota) else 200
        return page
    name = f"{_name(selection)}.{format}"
    return StreamedFile(name, MEDIA_TYPES[format], first, pieces).response(download)


def export_redirect(request: HttpRequest) -> HttpResponse:
    """Redirect from the list to the export of the tasks that were chosen there."""
    selection = chosen_tasks(request, request.POST)
    return HttpResponseRedirect(
        f"{reverse('admin:environments_task_export')}?{urlencode(selection.values())}"
    )


def _page(request: HttpRequest, selection: Selection, context: dict[str, Any]) -> HttpResponse:
    count = selection.count(MAX_COUNTED_TASKS, MAX_COUNT_SECONDS)
    variables = {
        "title": "Export tasks",
        "chosen": selection.values(),
        "count": count,
        "about": ABOUT,
    }
    variables["is_served"] = selection.state == SERVED
    return TemplateResponse(request, "curation/export.html", {**context, **variables})


def _name(selection: Selection) -> str:
    """Return the file's name without its ending, made of the filters."""
    splits, environments = Split.objects.existing(), Environment.objects.seen_by(selection.viewer)
    split = (
        splits.seen_by(selection.viewer).filter(pk=selection.split).first()
        if selection.split
        else None
    )
    environment = (
        environments.filter(pk=selection.environment).first() if selection.environment else None
    )
    words = [str(split or environment or "tasks"), selection.tag]
    words += [selection.values().get("state", ""), selection.source, selection.bucket]
    return slugify(" ".join(word.replace("/", "-") for word in words if word)) or "tasks"
