"""Export of the episodes that a filter finds as a file, generated while it is sent.
`episodes/transfer/` writes it."""

from __future__ import annotations

from typing import Any, cast

from django.db import connection
from django.db.models import QuerySet
from django.http import Http404, StreamingHttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request

from environments import security_log
from environments.keys.open_streams import STREAMS_PER_DOWNLOAD, open_streams
from environments.transfer.streaming import Download, streamed
from episodes.api.base import ANY, ApiView, one_of, real
from episodes.api.episodes import asked_of
from episodes.api.openapi import FILTERS, documented, parameter
from episodes.filtering.conditions import NamedRows, episodes_of
from episodes.filtering.parameters import refuse_blanks
from episodes.models import Episode
from episodes.models.privacy import played_with
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
from episodes.transfer.training_options import CHOICES, HELP, TrainingOptions
from episodes.visibility import blind_to

OWN = ("format", "margin", "min_return", "success", *CHOICES)


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
            (200, media.partition(";")[0]): OpenApiTypes.BINARY
            for media in dict.fromkeys(MEDIA_TYPES.values())
        },
        parameter(
            "format",
            "File format; `jsonl`, `atif` and `harbor` lose nothing and can be imported again",
            enum=FORMATS,
        ),
        parameter("margin", "For `pairs`: minimum difference between the two returns", kind=float),
        parameter("min_return", "Minimum return of an ended episode", kind=float),
        parameter(
            "success",
            "`yes` selects attempts with a return above the threshold of the environment",
            enum=("yes", "no"),
        ),
        *(
            parameter(name, f"{HELP[name][0].upper()}{HELP[name][1:]}", enum=CHOICES[name])
            for name in CHOICES
        ),
        *FILTERS,
        may_miss=True,
    )
    def get(self, request: Request) -> Any:
        format = cast(Format, one_of(request, "format", FORMATS, "jsonl"))
        refuse_blanks(request.GET)
        asked = asked_of(request, self.reader, *OWN)
        least, successes = (
            real(request, "min_return"),
            one_of(request, "success", ("yes", "no"), "no") == "yes",
        )
        episodes = narrowed(
            episodes_of(asked, most_texts=None), asked.asked, least=least, only_successes=successes
        )
        episodes = episodes.exclude(pk__in=list(blind_to(self.reader.person)))
        training = TrainingFile(
            TrainingOptions.parse(
                request.GET, definition=asked.asked, margin=real(request, "margin") or 0.0
            ),
            PromptSources(self._readable()),
        )
        pieces = exported(
            episodes,
            format,
            training=training,
            has_additions=self.reader.key_label is None,
            guard=self.guard,
        )
        is_any = episodes.exists()
        if not is_any or (first := next(pieces, None)) is None:
            self.refuse_unknown(NamedRows.of(asked).unknown)
            raise Http404(why_nothing(format, is_any=is_any))
        what = f"episodes as {format}: {request.GET.urlencode() or 'all'}"
        place = open_streams.enter(
            self.reader.owner, request.META.get("REMOTE_ADDR", ""), STREAMS_PER_DOWNLOAD
        )
        download = Download(
            what, self.reader.owner.removeprefix("@"), place, self.reader.rights_of(request)
        )
        security_log.note("exported", what, who=self.reader.key.label or None)
        running = running_among(episodes, format)
        headers = headers_of_export(episodes, asked.asked, NamedRows.of(asked).environment)
        if not connection.in_atomic_block:
            connection.close()  # the rest is generated on another thread
        content = streamed(pieces, first, download)
        response = StreamingHttpResponse(content, content_type=MEDIA_TYPES[format], headers=headers)
        name = content_disposition_header(
            as_attachment=True, filename=f"episodes.{ENDINGS[format]}"
        )
        response[RUNNING_HEADER] = str(running)
        response["Content-Disposition"] = name or "attachment"
        return response

    def _readable(self) -> QuerySet[Episode]:
        """Return the episodes that may lend others their prompt and tools."""
        label, episodes = self.reader.key_label, Episode.objects.seen_by(self.reader.viewer)
        episodes = episodes if label is None else episodes.filter(played_with(label))
        return episodes.exclude(pk__in=list(blind_to(self.reader.person)))
