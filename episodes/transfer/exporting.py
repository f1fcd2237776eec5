"""EpisodeExport: the episodes that go into a file, and how it is written, as parameters say it.

    EpisodeExport.parse(request.GET, viewer).file(blind).response(download)

The export page and the API parse an address; `manage.py export_episodes` has options instead.
Episodes are written in the order of their ids, pairs in the order of their tasks. Memory use is
some megabytes, however many episodes there are, and no transaction stays open between pieces.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self, cast

from django.db.models import QuerySet

from environments.database.storable import id_in
from environments.errors import OrsError
from environments.files.streaming import StreamedFile, in_large_pieces
from environments.filtering.parameters import (
    BadFilter,
    chosen,
    given,
    real,
    refuse_blanks,
    trimmed,
)
from environments.models import Viewer
from environments.scoring.definition import DEFINITION_PARAMETERS, definition_of
from environments.scoring.returns import floor_of
from episodes.attempts.conventions import coverage_among
from episodes.attempts.file_headers import COVERAGE_HEADER, DEFINITION_HEADER, definition_header
from episodes.attempts.rule import AttemptQuerySet
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode
from episodes.transfer.export_file import ExportFile
from episodes.transfer.formats import EXPORT_FORMATS, ExportFormat
from episodes.transfer.training_options import CHOICES, TrainingOptions
from episodes.visibility import TaskGuard

MAX_IDS = 1000
RUNNING_HEADER = "X-Running-Episodes"
"""Header of a response with a file: how many episodes in the file were still running."""
NO_EPISODES = "No episodes match the filter, so there is nothing to export."


class NothingToExport(OrsError):
    """The file would be empty; the message says why."""

    def __init__(self, reason: str, unknown: str) -> None:
        super().__init__(reason)
        self.unknown = unknown
        """Sentences about names in the filter that do not exist; empty if all exist."""


@dataclass(frozen=True)
class EpisodeExport:
    filter: EpisodeFilter
    format: ExportFormat
    ids: Collection[int] = ()
    """Ids to which the episodes of the filter are limited; empty: no such limit."""
    least_return: float | None = None
    """Smallest return of an episode, which therefore has ended; None: any."""
    options: TrainingOptions = field(default_factory=TrainingOptions)

    PARAMETERS: ClassVar = ("format", "margin", "min_return", *CHOICES)
    """Parameters besides those of the filter."""

    @classmethod
    def parse(
        cls,
        parameters: Mapping[str, str],
        viewer: Viewer,
        *,
        also: Collection[str] = (),
        default: str = "",
    ) -> Self:
        """Return the export that an address describes. Raises: BadFilter.

        `also`: `ids` if the address may name episodes. `default`: the format of an address without
        one; empty: it has to have one.
        """
        # A parameter that a script left blank would otherwise export everything.
        refuse_blanks(parameters)
        filter_ = EpisodeFilter.parse(parameters, also=(*cls.PARAMETERS, *also), viewer=viewer)
        name = trimmed(parameters.get("format", "")) or default
        format = EXPORT_FORMATS[chosen(list(EXPORT_FORMATS))("format", name)]
        return cls(
            filter_,
            format,
            given(parameters, "ids", _ids, ()) or (),
            given(parameters, "min_return", real),
            TrainingOptions.parse(
                parameters,
                definition=filter_.overrides,
                margin=given(parameters, "margin", real) or 0.0,
            ),
        )

    @cached_property
    def names(self) -> NamedRows:
        """The rows that the filter names."""
        return NamedRows.of(self.filter)

    def episodes(self) -> AttemptQuerySet[Episode]:
        """Return the episodes.

        Returns are by the parts of a definition that the filter gives, and else by that of each
        episode's environment, which takes a query.
        """
        # A search finds all matches, not only as many of the newest as pages look at.
        episodes = self.names.episodes(most_texts=None)
        if self.ids:
            episodes = episodes.filter(pk__in=self.ids)
        if self.least_return is None:
            return episodes
        value = self.names.conventions.return_of(self.filter.overrides.return_)
        attempts = episodes.ended().alias(own_return=value)
        least = floor_of(self.least_return)
        return cast("AttemptQuerySet[Episode]", attempts.filter(own_return__gte=least))

    def file(self, blind: Collection[int], name: str = "episodes") -> StreamedFile:
        """Return the file, whose name `name` begins. Raises: NothingToExport.

        `blind`: ids of episodes that the viewer plays blind, of which the file tells nothing.
        """
        viewer, definition = self.filter.viewer, self.filter.overrides
        episodes = self.episodes().exclude(pk__in=blind)
        if not episodes.exists():
            raise NothingToExport(NO_EPISODES, self.names.unknown)
        # Episodes of one task share its prompt. A key gets none from an episode of another key.
        readable = Episode.objects.seen_by(viewer).exclude(pk__in=blind)
        content = ExportFile(
            episodes,
            self.options,
            readable,
            has_additions=viewer.key_label is None,
            guard=TaskGuard(viewer),
        )
        pieces = in_large_pieces(self.format.pieces(content))
        first = next(pieces, None)
        if first is None:
            raise NothingToExport(self.format.why_empty or NO_EPISODES, self.names.unknown)
        if (environment := self.names.environment) is not None:
            header = definition_header(definition_of(environment, definition))
        else:  # each environment has its own definition
            parts = definition.values()
            texts = [f"{name}={parts.get(name, 'environment')}" for name in DEFINITION_PARAMETERS]
            header = {DEFINITION_HEADER: "; ".join(texts)}
        header[COVERAGE_HEADER] = coverage_among(episodes, definition).text
        header[RUNNING_HEADER] = str(running_among(episodes, self.format))
        file = f"{name}.{self.format.extension}"
        return StreamedFile(file, self.format.media_type, first, pieces, header)


def _ids(name: str, text: str) -> list[int]:
    numbers = [id_in(part) for part in text.split(",")]
    ids = [number for number in numbers if number is not None]
    if len(ids) < len(numbers):
        raise BadFilter(name, text, "give episode numbers separated by commas, such as ids=1,2,3")
    if len(ids) > MAX_IDS:
        count = f"{len(ids)} numbers"
        raise BadFilter(name, count, f"up to {MAX_IDS} are allowed; a filter has no such limit")
    return ids


def running_among(episodes: QuerySet[Episode], format: ExportFormat) -> int:
    """Return how many of `episodes` are still running, so that a file of `format` holds them
    incompletely.

    Takes two queries, which read few rows however many episodes there are.
    """
    if not format.has_running:
        return 0
    running = list(Episode.objects.filter(status="running").values_list("pk", flat=True))
    return episodes.filter(pk__in=running).count() if running else 0
