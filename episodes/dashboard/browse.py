"""The list of episodes, with filters and sorting in the address, the preview of one episode, and
saved views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from environments.access.privacy import viewer_of
from environments.display.addresses import takes
from environments.models import Environment, Split, Viewer
from episodes.dashboard.shared_parts import shared_part
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import ENDINGS, PLAYER_CHOICES, EpisodeFilter, ending_label
from episodes.filtering.names import models, name_tasks, people, runs, studies
from episodes.filtering.page import (
    EpisodePage,
    match_count_of,
    page_of,
    shown,
    summary_of,
    with_running,
    with_snippets,
)
from episodes.filtering.parameters import BadFilter, trimmed, words
from episodes.models import Episode, Run, SavedView
from episodes.models.privacy import visible_episodes
from episodes.rollups.search_note import search_note
from episodes.transcript.preview import preview_of
from episodes.visibility import blind_to, sight_of

COLUMNS = {
    "ending": "Ending", "environment": "Environment", "task": "Task", "player": "Player", "run": "Run",
    "return": "Return", "steps": "Steps", "duration": "Duration", "time": "Started",
}  # fmt: skip
"""Heading by column name, in the order of the table. A sortable column has the name of its sort."""
PAGING = ("sort", "after", "columns")
"""Parameters of the page that are not part of the filter."""
MAX_COLUMNS = 8
"""Number of labels that have a column."""
_SORTABLE = ("return", "steps", "duration", "time")
_RIGHT = ("return", "steps", "duration", "time")


@dataclass(frozen=True, slots=True)
class ColumnHead:
    name: str
    label: str
    is_right: bool
    query: str
    """Query string that sorts by this column, or reverses the order; empty if the column is not
    sortable."""
    direction: str
    """`descending` or `ascending` if the page is sorted by this column, else empty."""


@require_safe
@never_cache
def episodes(request: HttpRequest) -> HttpResponse:
    """Return the page, or only its table for htmx. Raises: BadRequest with the reason why a filter
    cannot be used."""
    if request.headers.get("HX-Request"):
        sees = sight_of(request.user)
        return shared_part(
            request, "episodes/browse_table.html", sees, lambda: _listed(request).table
        )
    asked, page, table = _listed(request)
    return render(
        request,
        "episodes/browse.html",
        table | _form(asked, page, request.GET.get("sort", "")),
        status=400 if page.unknown else 200,
    )


class Listed(NamedTuple):
    asked: EpisodeFilter
    page: EpisodePage
    table: dict[str, Any]
    """Variables of the template of the table."""


def _listed(request: HttpRequest) -> Listed:
    """Return what the address of the list asks for. Raises: BadRequest."""
    query = request.GET
    sort, after = query.get("sort", ""), query.get("after", "")
    columns = label_columns(query.get("columns", ""))
    asked = EpisodeFilter.parse(query, also=PAGING, viewer=viewer_of(request.user))
    page = page_of(asked, sort, after)
    if page.has_running:
        page = with_running(page, blind=blind_to(request.user))
    page = with_snippets(page, asked)
    name_tasks(row.episode for row in page.rows)
    return Listed(asked, page, _table(asked, page, Shown(sort, columns), after))


class Shown(NamedTuple):
    """How the list shows what the filter finds."""

    sort: str
    columns: Sequence[str]
    """Names of labels that have a column."""

    @property
    def parameters(self) -> dict[str, str]:
        return {"sort": self.sort, "columns": ",".join(self.columns)}


def label_columns(text: str) -> list[str]:
    """Return the names of labels in the parameter `columns`. Raises: BadFilter."""
    names = list(dict.fromkeys(filter(None, map(trimmed, words("columns", text).split(",")))))
    if len(names) > MAX_COLUMNS:
        raise BadFilter("columns", text, f"at most {MAX_COLUMNS} labels are shown")
    return names


def _seal_note(named: NamedRows, viewer: Viewer) -> str:
    """Return what the list of a split or an environment lacks for somebody from whom it is sealed;
    may be empty."""
    sealed = viewer.sealed_splits
    if named.split is not None and named.split.pk in sealed:
        return (
            f"The split {named.split.name} is sealed. You can see its figures, but neither its "
            "tasks nor its episodes."
        )
    if (
        named.split is None
        and named.environment is not None
        and named.environment.pk in sealed.values()
    ):
        return "Episodes of sealed splits are left out. Figures count them."
    return ""


def _labels(page: EpisodePage, columns: Sequence[str]) -> dict[int, list[str | None]]:
    """Return the values of these labels by episode; None where it lacks the label. One query, or
    none."""
    if not columns:
        return {}
    episodes = Episode.objects.filter(pk__in=[row.episode.pk for row in page.rows]).only("labels")
    found = {one.pk: one.labels_object for one in episodes}
    return {pk: [labels.get(name) for name in columns] for pk, labels in found.items()}


def _table(asked: EpisodeFilter, page: EpisodePage, listed: Shown, after: str) -> dict[str, Any]:
    labels, kept = _labels(page, listed.columns), listed.parameters
    return {
        "asked": asked,
        "page": page,
        "rows": [(row, labels.get(row.episode.pk, ())) for row in page.rows],
        "heads": list(_heads(asked, listed)),
        "columns": listed.columns,
        "width": 1 + len(COLUMNS) + len(listed.columns),
        "total": str(match_count_of(asked, page)),
        "seal_note": _seal_note(page.named, asked.viewer),
        "search_note": ""
        if asked.text is None
        else search_note(asked.text, visible_episodes(asked.viewer)),
        "next": asked.to_query(**kept, after=page.next) if page.next else "",
        "previous": asked.to_query(**kept, after=page.previous) if page.previous else "",
        "first": asked.to_query(**kept),
        "kept": urlencode({name: text for name, text in kept.items() if text}),
        "is_first": not after,
        "is_by_figure": listed.sort.removeprefix("-") not in ("", "time"),
    }


def _heads(asked: EpisodeFilter, listed: Shown) -> Sequence[ColumnHead]:
    sort, columns = listed.sort, listed.parameters["columns"]
    by, is_descending = (sort or "-time").removeprefix("-"), (sort or "-time").startswith("-")
    found = []
    for name, label in COLUMNS.items():
        is_by = name == by
        order = name if is_by and is_descending else f"-{name}"
        query = asked.to_query(sort=order, columns=columns) if name in _SORTABLE else ""
        direction = ("descending" if is_descending else "ascending") if is_by else ""
        found.append(ColumnHead(name, label, name in _RIGHT, query, direction))
    return found


def _form(asked: EpisodeFilter, page: EpisodePage, sort: str) -> dict[str, Any]:
    """Return the template variables of the filter form."""
    viewer = asked.viewer
    environments = list(Environment.objects.seen_by(viewer).only("name", "default_return"))
    chosen = next((row for row in environments if row.name == asked.environment), None)
    return {
        "values": asked.values(),
        "chips": asked.chips(),
        "sort": sort,
        "environments": [row.name for row in environments],
        "splits": Split.objects.filter(environment=chosen).values_list("name", flat=True)
        if chosen
        else (),
        "runs": runs(viewer),
        "namesakes": Run.objects.seen_by(viewer).namesakes(asked.run) if asked.run else [],
        "models": models(viewer),
        "endings": [(ending, ending_label(ending)) for ending in ENDINGS],
        "players": PLAYER_CHOICES.items(),
        "people": people(viewer) if asked.who is not None or asked.player == "human" else (),
        "studies": studies(viewer),
        "views": saved_views(viewer),
        "definition": page.definition,
        "own_definition": chosen.default_return if chosen else "",
    }


@require_safe
@never_cache
def episode_preview(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the preview pane. The parameter `return` names the definition of the return."""
    episode = shown(Episode.objects.select_related("prompt").filter(pk=pk)).first()
    if episode is None:
        raise Http404(f"There is no episode {pk}. It may have been deleted.")
    name_tasks([episode])
    asked = EpisodeFilter.parse(request.GET, viewer=viewer_of(request.user))
    definition = NamedRows.of(asked).definition(asked)
    context = {
        "episode": episode,
        "summary": summary_of(episode),
        "value": episode.returns[definition],
        "definition": definition,
        "preview": preview_of(episode),
    }
    return render(request, "episodes/preview.html", context)


# --- saved views ----------------------------------------------------------------------------------


def saved_views(viewer: Viewer) -> list[SavedView]:
    """Return the saved views. Those whose filter names what is hidden from the reader do not exist
    for them.

    A few queries for each view if something is hidden, otherwise one.
    """
    views = list(SavedView.objects.all())
    return (
        [view for view in views if _is_known(view.query, viewer)]
        if viewer.hides_anything
        else views
    )


def _is_known(query: str, viewer: Viewer) -> bool:
    try:
        asked = EpisodeFilter.parse(dict(parse_qsl(query)), also=PAGING, viewer=viewer)
    except BadFilter:
        return False
    return not NamedRows.of(asked).unknown


@require_POST
@takes()
def save_view(request: HttpRequest) -> HttpResponse:
    """Save `query` as a view named `name`, and replace a view of that name. Raises: BadRequest."""
    name, query = request.POST.get("name", "").strip(), request.POST.get("query", "")
    if not name or len(name) > 100 or "\0" in name:
        raise BadRequest(
            f"A saved view needs a name of 1 to 100 characters; this one has {len(name)}."
        )
    given = dict(parse_qsl(query, max_num_fields=100))
    try:
        asked = EpisodeFilter.parse(given, also=PAGING, viewer=viewer_of(request.user))
        page_of(asked, given.get("sort", ""), size=1)
        label_columns(given.get("columns", ""))
    except (BadFilter, ValueError) as error:
        raise BadRequest(f"This view cannot be saved: {error}") from error
    kept = asked.to_query(sort=given.get("sort", ""), columns=given.get("columns", ""))
    author = request.user.get_username()[:150]
    SavedView.objects.update_or_create(name=name, defaults={"query": kept, "author": author})
    return HttpResponseRedirect(f"{reverse('episodes')}?{kept}")


@require_POST
@takes()
def delete_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete a saved view and redirect to the Episodes page with `query`."""
    for view in saved_views(viewer_of(request.user)):
        if view.pk == pk:
            view.delete()
    kept = urlencode(parse_qsl(request.POST.get("query", ""), max_num_fields=None))
    return HttpResponseRedirect(f"{reverse('episodes')}?{kept}")
