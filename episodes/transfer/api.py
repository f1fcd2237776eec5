"""Export of the episodes that a filter finds as a file, generated while it is sent.
`episodes/transfer/` writes it."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request

from environments.files.streaming import Download
from environments.keys.open_streams import STREAMS_PER_DOWNLOAD, open_streams
from episodes.api.base import ANY, ApiView
from episodes.api.openapi import FILTERS, documented, parameter
from episodes.transfer.exporting import EpisodeExport, NothingToExport
from episodes.transfer.formats import EXPORT_FORMATS
from episodes.transfer.training_options import CHOICES, HELP
from episodes.visibility import blind_to


class ExportView(ApiView):
    """Every episode that the filter finds, as a file. A key exports those that were played with it, without notes of
    people. A search in transcripts finds the newest 50,000. The file is never empty: a 404 says why there is nothing.
    `X-Definition` says by which definition episodes count, and `X-Coverage` how many of them do.
    The header `X-Running-Episodes` counts the episodes that had not ended; the file has their steps so far, and they
    cannot be imported.
    """

    parameters = ANY

    @documented(
        "export",
        "episodes",
        {
            (200, format.media_type.partition(";")[0]): OpenApiTypes.BINARY
            for format in EXPORT_FORMATS.values()
        },
        parameter(
            "format",
            "File format; `jsonl`, `atif` and `harbor` lose nothing and can be imported again",
            enum=tuple(EXPORT_FORMATS),
        ),
        parameter("margin", "For `pairs`: minimum difference between the two returns", kind=float),
        parameter("min_return", "Minimum return of an ended episode", kind=float),
        *(
            parameter(name, f"{HELP[name][0].upper()}{HELP[name][1:]}", enum=CHOICES[name])
            for name in CHOICES
        ),
        *FILTERS,
    )
    def get(self, request: Request) -> Any:
        reader = self.reader
        export = EpisodeExport.parse(request.GET, reader.viewer, default="jsonl")
        try:
            file = export.file(list(blind_to(reader.person)))
        except NothingToExport as error:
            self.refuse_unknown(error.unknown)
            raise Http404(str(error)) from error
        what = f"episodes as {export.format.name}: {request.GET.urlencode() or 'all'}"
        address = request.META.get("REMOTE_ADDR", "")
        place = open_streams.enter(reader.owner, address, STREAMS_PER_DOWNLOAD)
        who = reader.owner.removeprefix("@")
        return file.response(Download(what, who, place, reader.rights_of(request)))
