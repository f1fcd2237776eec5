"""Export of the episodes that a filter finds, or of selected ones, as a file that is generated
while it is sent."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.files.streaming import download_of
from episodes.dashboard.guards import as_download, refused
from episodes.transfer.exporting import EpisodeExport, NothingToExport
from episodes.visibility import blind_to

PLAIN = ("environment", "split", "run", "model", "ending", "player", "who")
"""Filters whose value is clear in the name of a file without the name of the filter."""


@require_safe
@as_download
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
