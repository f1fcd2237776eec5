"""The list of episodes, with filters and sorting in the address, and the preview of one
episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.features import named
from environments.models import Environment, Split, Viewer
from episodes.browsing.episode_keys import SORTS
from episodes.browsing.episode_list import EpisodeList, EpisodeListQuery
from episodes.browsing.named_places import places_named
from episodes.browsing.task_lines import name_tasks, task_line_of
from episodes.dashboard.live_parts import shared_part
from episodes.dashboard.saved_views import ViewPage
from episodes.filtering.columns import HEADINGS, headings, with_list_columns
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import ENDINGS, PLAYER_CHOICES, EpisodeFilter
from episodes.filtering.names import models, people, runs, studies
from episodes.models import Episode, Run
from episodes.transcript.preview import preview_of
from episodes.visibility import blind_to, sight_of


@dataclass(frozen=True, slots=True)
class ColumnHead:
    name: str
    label: str
    query: str
    """Query string that sorts by this column, or reverses the order; empty if the column is not
    sortable."""
    direction: str
    """`descending` or `ascending` if the page is sorted by this column, else empty."""
    is_right: bool
    """Whether its cells are aligned right, as numbers are."""


@require_safe
@never_cache
def episodes(request: HttpRequest) -> HttpResponse:
    """Return the page, or for htmx only its table, browse_table.html. Raises: BadFilter."""
    query = EpisodeListQuery.parse(request.GET, viewer_of(request.user), also=("columns",))

    def table() -> dict[str, Any]:
        page, heads = query.result(blind_to(request.user)), _heads(query)
        number = next(head for head in heads if head.name == "time")
        heads = [
            replace(head, query="", direction="") if head is number else head for head in heads
        ]
        return {
            "query": query,
            "page": page,
            "heads": heads,
            "number": number,
            "width": 1 + len(heads) + len(query.labels),
            "total": str(query.match_count(page)),
            "seal_note": _seal_note(page.names),
            "next": query.to_query(after=page.next) if page.next else "",
            "previous": query.to_query(after=page.previous) if page.previous else "",
            "is_by_figure": query.sort.removeprefix("-") not in ("", "time"),
        }

    if request.headers.get("HX-Request"):
        sight = sight_of(request.user)
        return shared_part(request, "episodes/browse_table.html", sight, table)
    context = table()
    page = context["page"]
    if query.filter.text:
        context["places"] = places_named(query.filter.text, query.filter.viewer)
    context |= _form(query, page)
    return render(request, "episodes/browse.html", context, status=400 if page.unknown else 200)


def _heads(query: EpisodeListQuery) -> list[ColumnHead]:
    sort = query.sort or "-time"
    heads = []
    for name, label in headings().items():
        direction = ""
        if sort.removeprefix("-") == name:
            direction = "descending" if sort.startswith("-") else "ascending"
        order = name if direction == "descending" else f"-{name}"
        link = query.to_query(sort=order) if name in SORTS else ""
        heads.append(
            ColumnHead(name, label, link, direction, name in SORTS or name not in HEADINGS)
        )
    return heads


def _seal_note(names: NamedRows) -> str:
    """Return what the list of a split or an environment lacks for somebody from whom it is sealed;
    may be empty."""
    sealed_splits = names.filter.viewer.sealed_splits
    if names.split is not None:
        if names.split.pk not in sealed_splits:
            return ""
        return (
            f"The split {names.split.name} is sealed. You can see its figures, but neither its "
            "tasks nor its episodes."
        )
    if names.environment is not None and names.environment.pk in sealed_splits.values():
        return "Episodes of sealed splits are left out. Figures count them."
    return ""


def _form(query: EpisodeListQuery, page: EpisodeList) -> dict[str, Any]:
    """Return the template variables of the filter form."""
    filter_, viewer = query.filter, query.filter.viewer
    environments = list(Environment.objects.seen_by(viewer).only("name", "default_return"))
    environment = next((row for row in environments if row.name == filter_.environment), None)
    splits: Sequence[str] = ()
    if environment is not None:
        splits = list(Split.objects.filter(environment=environment).values_list("name", flat=True))
    is_of_people = filter_.who is not None or filter_.player == "human"
    order = {"sort": query.sort, "columns": ",".join(query.labels)}
    return {
        "filter": filter_,
        "kept": urlencode({name: text for name, text in order.items() if text}),
        "values": filter_.values(),
        "further": [
            (parameter, filter_.text_of(name))
            for name, parameter in filter_.parameters().items()
            if parameter.example
        ],
        "chips": filter_.chips(),
        "environments": [row.name for row in environments],
        "splits": splits,
        "runs": runs(viewer),
        "namesakes": Run.objects.seen_by(viewer).namesakes(filter_.run) if filter_.run else [],
        "models": models(viewer),
        "endings": ENDINGS.items(),
        "players": PLAYER_CHOICES.items(),
        "people": people(viewer) if is_of_people else (),
        "studies": studies(viewer),
        "views": VIEWS.views(viewer),
        "address": query.to_query(),
        "formats": named("episode_formats"),
        "definition": page.definition,
        "own_definition": environment.default_return if environment else "",
    }


@require_safe
@never_cache
def episode_preview(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the preview pane. The parameter `return` names the definition of the return."""
    episode = with_list_columns(Episode.objects.select_related("prompt").filter(pk=pk)).first()
    if episode is None:
        raise Http404(f"There is no episode {pk}. It may have been deleted.")
    name_tasks([episode])
    filter_ = EpisodeFilter.parse(request.GET, viewer=viewer_of(request.user))
    definition = NamedRows.of(filter_).definition
    context = {
        "episode": episode,
        "summary": task_line_of(episode),
        "value": episode.returns[definition],
        "definition": definition,
        "preview": preview_of(episode),
    }
    return render(request, "episodes/preview.html", context)


# --- saved views ----------------------------------------------------------------------------------


def _saved_address(query: str, viewer: Viewer) -> str:
    """Return the query string of a view as it is saved. Raises: BadFilter."""
    view = EpisodeListQuery.parse(dict(parse_qsl(query)), viewer, also=("columns",))
    replace(view, size=1).result()  # refuses a cursor of another order
    return view.to_query()


def _is_visible(query: str, viewer: Viewer) -> bool:
    view = EpisodeListQuery.parse(dict(parse_qsl(query)), viewer, also=("after", "columns"))
    return not NamedRows.of(view.filter).unknown


VIEWS = ViewPage("episodes", _saved_address, _is_visible)
