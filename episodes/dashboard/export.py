"""Export of the episodes that a filter finds, or of selected ones, as a file that is generated
while it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from environments import security_log
from environments.access.privacy import viewer_of
from environments.database.storable import id_in
from environments.transfer.streaming import download_of, streamed
from episodes.attempts.rule import AttemptQuerySet
from episodes.dashboard.guards import as_download, refused
from episodes.filtering.conditions import NamedRows, episodes_of
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.parameters import BadFilter, chosen, flag, real, refuse_blanks
from episodes.models import Episode
from episodes.transfer.csv_lines import headers_of_export
from episodes.transfer.exporting import (
    ENDINGS,
    FORMATS,
    MEDIA_TYPES,
    RUNNING_HEADER,
    Format,
    exported,
    running_among,
    why_nothing,
)
from episodes.transfer.prompt_sources import PromptSources
from episodes.transfer.thresholds import narrowed
from episodes.transfer.training import TrainingFile
from episodes.transfer.training_options import CHOICES, TrainingOptions
from episodes.visibility import TaskGuard, blind_to

OWN_PARAMETERS = ("format", "ids", "min_return", "success", "margin", *CHOICES)
"""Parameters that are not part of the filter."""
MAX_IDS = 1000


@require_safe
@as_download
def episode_export(request: HttpRequest) -> HttpResponseBase:
    """Return the file in `format` for any filter; `ids=1,2,3` selects episodes. Raises:
    BadRequest."""
    query = request.GET.dict()
    refuse_blanks(query)
    viewer = viewer_of(request.user)
    asked = EpisodeFilter.parse(request.GET, also=OWN_PARAMETERS, viewer=viewer)
    format, ids = _format(query), _ids(query)
    blind = list(blind_to(request.user))
    episodes = _episodes(asked, ids, query).exclude(pk__in=blind)
    margin = real("margin", query["margin"]) if query.get("margin") else 0.0
    options = TrainingOptions.parse(query, definition=asked.asked, margin=margin)
    sources = PromptSources(Episode.objects.seen_by(viewer).exclude(pk__in=blind))
    guard = TaskGuard(viewer_of(request.user))
    pieces = exported(episodes, format, training=TrainingFile(options, sources), guard=guard)
    is_any = episodes.exists()
    if not is_any or (first := next(pieces, None)) is None:
        return _nothing(request, asked, why_nothing(format, is_any=is_any))
    what = f"episodes as {format}: {request.GET.urlencode()}"
    download = download_of(request, what)
    security_log.note("exported", what)
    headers = headers_of_export(episodes, asked.asked, NamedRows.of(asked).environment)
    content = streamed(pieces, first, download)
    answer = StreamingHttpResponse(content, content_type=MEDIA_TYPES[format], headers=headers)
    name = f"{_name(asked, ids)}.{ENDINGS[format]}"
    answer[RUNNING_HEADER] = str(running_among(episodes, format))
    answer["Content-Disposition"] = (
        content_disposition_header(as_attachment=True, filename=name) or "attachment"
    )
    return answer


def _format(query: Mapping[str, str]) -> Format:
    """Return the parameter `format`. Raises: BadFilter."""
    given = chosen(FORMATS)("format", query.get("format", ""))
    return next(format for format in get_args(Format) if format == given)


def _ids(query: Mapping[str, str]) -> list[int]:
    """Return the parameter `ids`; empty if it is absent. Raises: BadFilter."""
    given = query.get("ids", "")
    numbers = [id_in(text) for text in given.split(",")] if given else []
    ids = [number for number in numbers if number is not None]
    if len(ids) < len(numbers):
        raise BadFilter("ids", given, "give episode numbers separated by commas, such as ids=1,2,3")
    if len(ids) > MAX_IDS:
        raise BadFilter(
            "ids", f"{len(ids)} numbers", f"up to {MAX_IDS} are allowed; a filter has no such limit"
        )
    return ids


def _episodes(
    asked: EpisodeFilter, ids: list[int], query: Mapping[str, str]
) -> AttemptQuerySet[Episode]:
    """Return the episodes to export. Raises: BadFilter."""
    least = real("min_return", query["min_return"]) if query.get("min_return") else None
    only_successes = bool(query.get("success")) and flag("success", query["success"])
    episodes = narrowed(
        episodes_of(asked, most_texts=None), asked.asked, least=least, only_successes=only_successes
    )
    return episodes.filter(pk__in=ids) if ids else episodes


def _nothing(request: HttpRequest, asked: EpisodeFilter, why: str) -> HttpResponseBase:
    sentence = NamedRows.of(asked).unknown or why
    link = (f"{reverse('episodes')}?{asked.to_query()}", "The episodes of this filter")
    return refused(request, "Nothing to export", sentence, [link], status=404)


def _name(asked: EpisodeFilter, ids: list[int]) -> str:
    """Return the name of the file without its suffix, derived from the filter."""
    if len(ids) == 1:
        return f"episode-{ids[0]}"
    words = [
        value if name in _PLAIN else f"{name} {value}" for name, value in asked.values().items()
    ]
    return slugify(" ".join(["episodes", *words]).replace("/", "-").replace(".", "-"))[:100]


_PLAIN = ("environment", "split", "run", "model", "ending", "player", "who")
"""Filters whose value is clear without the name of the filter."""
