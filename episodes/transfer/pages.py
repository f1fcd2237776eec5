"""Exports of the episodes that a filter finds, or of selected ones, and of uploaded conversations,
as files that are generated while they are sent."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.errors import OverQuota
from environments.files.streaming import StreamedFile, download_of, in_large_pieces
from environments.filtering.parameters import refuse_blanks
from episodes.dashboard.guards import refused
from episodes.filtering.rollouts import RolloutFilter
from episodes.models import Episode, Rollout
from episodes.transfer.export_file import ExportFile
from episodes.transfer.exporting import EpisodeExport, NothingToExport
from episodes.transfer.formats.messages import rollout_lines
from episodes.transfer.training_options import CHOICES, TrainingOptions
from episodes.visibility import blind_to

View = Callable[[HttpRequest], HttpResponseBase]
PLAIN = ("environment", "split", "run", "model", "ending", "player", "who")
"""Filters whose value is clear in the name of a file without the name of the filter."""


def refuse_too_many_downloads(view: View) -> View:
    @wraps(view)
    def wrapped(request: HttpRequest) -> HttpResponseBase:
        try:
            return view(request)
        except OverQuota as error:
            page = refused(request, "Too many downloads", f"{error}.", status=429)
            page["Retry-After"] = str(round(error.retry_seconds))
            return page

    return wrapped


@require_safe
@refuse_too_many_downloads
def episode_export(request: HttpRequest) -> HttpResponseBase:
    """Return the file in `format` for any filter; `ids=1,2,3` selects episodes. Raises:
    BadFilter."""
    export = EpisodeExport.parse(request.GET, viewer_of(request.user), also=("ids",))
    try:
        file = export.file(list(blind_to(request.user)), _name(export))
    except NothingToExport as error:
        link = (f"{reverse('episodes')}?{export.filter.to_query()}", "The episodes of this filter")
        sentence = error.unknown or str(error)
        return refused(request, "Nothing to export", sentence, [link], status=404)
    what = f"episodes as {export.format.name}: {request.GET.urlencode()}"
    return file.response(download_of(request, what))


def _name(export: EpisodeExport) -> str:
    """Return the name of the file without its suffix, derived from the filter."""
    if len(export.ids) == 1:
        return f"episode-{next(iter(export.ids))}"
    words = ["episodes"] + [
        value if name in PLAIN else f"{name} {value}"
        for name, value in export.filter.values().items()
    ]
    return slugify(" ".join(words).replace("/", "-").replace(".", "-"))[:100]


@require_safe
@refuse_too_many_downloads
def rollout_export(request: HttpRequest) -> HttpResponseBase:
    """Return the conversations that a filter finds as messages for fine-tuning; `rollout` is the id
    of a single one. Raises: BadFilter."""
    query = request.GET.dict()
    refuse_blanks(query)
    filters = RolloutFilter.parse(query, also=("rollout", *CHOICES), viewer=viewer_of(request.user))
    file = ExportFile(Episode.objects.none(), TrainingOptions.parse(query))
    blind = list(blind_to(request.user))
    rollouts: QuerySet[Rollout] = filters.rollouts().exclude(episode__in=blind)
    if query.get("rollout"):
        rollouts = rollouts.filter(event_id=query["rollout"].replace("\0", ""))
    pieces = in_large_pieces(rollout_lines(rollouts, file))
    if (first := next(pieces, None)) is None:
        sentence = "None of these conversations has a message of the model that can be exported."
        return refused(
            request,
            "Nothing to export",
            sentence,
            [(reverse("rollouts"), "Conversations")],
            status=404,
        )
    download = download_of(
        request, f"conversations as messages: {request.GET.urlencode() or 'all'}"
    )
    response = StreamedFile("conversations.messages.jsonl", "application/jsonl", first, pieces)
    return response.response(download)
