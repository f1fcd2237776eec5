"""Export of the episodes that a filter finds as a file, generated while it is sent. `episodes/transfer/` writes it."""

from __future__ import annotations

from typing import Any, cast

from django.db import connection
from django.http import Http404, StreamingHttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request

from environments.transfer.streaming import streamed
from episodes.api.base import ANY, ApiView, one_of, real
from episodes.api.episodes import asked_of
from episodes.api.openapi import FILTERS, documented, parameter
from episodes.filtering.conditions import NamedRows, episodes_of
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
from episodes.transfer.thresholds import narrowed
from episodes.visibility import blind_to

OWN = ("format", "margin", "min_return", "success")


class ExportView(ApiView):
    """Every episode that the filter finds, as a file. A key exports those that were played with it, without notes of
    people. A search in transcripts finds the newest 50,000. The file is never empty: a 404 says why there is nothing.
    The header `X-Running-Episodes` counts the episodes that had not ended; the file has their steps so far, and they
    cannot be imported.
    """

    parameters = ANY

    @documented(
        "export",
        "episodes",
        {(200, media.partition(";")[0]): OpenApiTypes.BINARY for media in dict.fromkeys(MEDIA_TYPES.values())},
        parameter("format", "File format; `jsonl` loses nothing and can be imported again", enum=FORMATS),
        parameter("margin", "For `pairs`: minimum difference between the two returns", kind=float),
        parameter("min_return", "Minimum return of an ended episode", kind=float),
        parameter(
            "success", "`yes` selects attempts with a return above the threshold of the environment", enum=("yes", "no")
        ),
        *FILTERS,
        is_one=True,
    )
    def get(self, request: Request) -> Any:
        format = cast(Format, one_of(request, "format", FORMATS, "jsonl"))
        asked = asked_of(request, self.reader, *OWN)
        least, successes = real(request, "min_return"), one_of(request, "success", ("yes", "no"), "no") == "yes"
        episodes = narrowed(episodes_of(asked), asked.definition, least=least, only_successes=successes)
        episodes = episodes.exclude(pk__in=list(blind_to(self.reader.person)))
        margin, is_person = real(request, "margin") or 0.0, self.reader.key_label is None
        pieces = exported(episodes, format, definition=asked.definition, margin=margin, has_additions=is_person)
        is_any = episodes.exists()
        if not is_any or (first := next(pieces, None)) is None:
            self.refuse_unknown(NamedRows.of(asked).unknown)
            raise Http404(why_nothing(format, is_any=is_any))
        running = running_among(episodes, format)
        if not connection.in_atomic_block:
            connection.close()  # the rest is generated on another thread
        response = StreamingHttpResponse(streamed(pieces, first), content_type=MEDIA_TYPES[format])
        name = content_disposition_header(as_attachment=True, filename=f"episodes.{ENDINGS[format]}")
        response[RUNNING_HEADER] = str(running)
        response["Content-Disposition"] = name or "attachment"
        return response
