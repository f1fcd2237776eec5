"""EpisodeExport: the episodes that go into a file, and how it is written, as parameters say it.

    EpisodeExport.parse(request.GET, viewer).file(blind).response(download)

The export page and the API parse an address; `manage.py export_episodes` has options instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self, cast

from django.db.models import Q

from environments.database.storable import id_in
from environments.errors import OrsError
from environments.files.streaming import StreamedFile
from environments.filtering.parameters import (
    BadFilter,
    chosen,
    flag,
    given,
    real,
    refuse_blanks,
    trimmed,
)
from environments.models import Environment, Viewer
from environments.scoring.definition import (
    DEFINITION_PARAMETERS,
    definition_of,
    definitions_in_force,
)
from environments.scoring.returns import floor_of
from episodes.attempts.conventions import ConventionsInForce, coverage_among
from episodes.attempts.rule import AttemptQuerySet
from episodes.filtering.conditions import NamedRows, episodes_of
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode
from episodes.transfer.csv_lines import COVERAGE_HEADER, DEFINITION_HEADER, definition_header
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
from episodes.transfer.training import TrainingFile
from episodes.transfer.training_options import CHOICES, TrainingOptions
from episodes.visibility import TaskGuard

MAX_IDS = 1000


class NothingToExport(OrsError):
    """The file would be empty; the message says why."""

    def __init__(self, reason: str, unknown: str) -> None:
        super().__init__(reason)
        self.unknown = unknown
        """Sentences about names in the filter that do not exist; empty if all exist."""


@dataclass(frozen=True, slots=True)
class EpisodeExport:
    filter: EpisodeFilter
    format: Format
    ids: Collection[int] = ()
    """Ids to which the episodes of the filter are limited; empty: no such limit."""
    least_return: float | None = None
    """Smallest return of an episode, which therefore has ended; None: any."""
    only_successes: bool = False
    """Whether only attempts with a return above the threshold are exported."""
    options: TrainingOptions = field(default_factory=TrainingOptions)

    PARAMETERS: ClassVar = ("format", "margin", "min_return", "success", *CHOICES)
    """Parameters besides those of the filter."""

    @classmethod
    def parse(
        cls,
        parameters: Mapping[str, str],
        viewer: Viewer,
        *,
        also: Collection[str] = (),
        default: Format | None = None,
    ) -> Self:
        """Return the export that an address describes. Raises: BadFilter.

        `also`: `ids` if the address may name episodes. `default`: the format of an address without
        one; None: it has to have one.
        """
        # A parameter that a script left blank would otherwise export everything.
        refuse_blanks(parameters)
        format = trimmed(parameters.get("format", "")) or default or ""
        filter_ = EpisodeFilter.parse(parameters, also=(*cls.PARAMETERS, *also), viewer=viewer)
        return cls(
            filter_,
            chosen(FORMATS)("format", format),
            given(parameters, "ids", _ids, ()) or (),
            given(parameters, "min_return", real),
            given(parameters, "success", flag, False) or False,
            TrainingOptions.parse(
                parameters,
                definition=filter_.asked,
                margin=given(parameters, "margin", real) or 0.0,
            ),
        )

    def episodes(self, named: NamedRows | None = None) -> AttemptQuerySet[Episode]:
        """Return the episodes. `named`: as of `episodes_of`.

        Returns and successes are by the parts of a definition that the filter gives, and else by
        that of each episode's environment, which takes a query.
        """
        # A search finds all matches, not only as many of the newest as pages look at.
        episodes = episodes_of(self.filter, named, most_texts=None)
        if self.ids:
            episodes = episodes.filter(pk__in=self.ids)
        if self.least_return is None and not self.only_successes:
            return episodes
        definitions = definitions_in_force(self.filter.asked)
        conventions = ConventionsInForce.of_definitions(definitions)
        condition = Q()
        if self.least_return is not None:
            condition &= Q(own_return__gte=floor_of(self.least_return))
        if self.only_successes:
            condition &= conventions.attempts & Q(own_return__gt=definitions.bar_value())
        value = conventions.return_of(self.filter.asked.return_)
        ended = episodes.ended().alias(own_return=value).filter(condition)
        return cast("AttemptQuerySet[Episode]", ended)

    def file(self, blind: Collection[int], name: str = "episodes") -> StreamedFile:
        """Return the file, whose name `name` begins. Raises: NothingToExport.

        `blind`: ids of episodes that the viewer plays blind, of which the file tells nothing.
        """
        viewer, named = self.filter.viewer, NamedRows.of(self.filter)
        episodes = self.episodes(named).exclude(pk__in=blind)
        # Episodes of one task share its prompt. A key gets none from an episode of another key.
        readable = Episode.objects.seen_by(viewer).exclude(pk__in=blind)
        pieces = exported(
            episodes,
            self.format,
            training=TrainingFile(self.options, PromptSources(readable)),
            has_additions=viewer.key_label is None,
            guard=TaskGuard(viewer),
        )
        is_any = episodes.exists()
        first = next(pieces, None) if is_any else None
        if first is None:
            raise NothingToExport(why_nothing(self.format, is_any=is_any), named.unknown)
        return StreamedFile(
            f"{name}.{ENDINGS[self.format]}",
            MEDIA_TYPES[self.format],
            first,
            pieces,
            {
                **self._definition_header(named.environment),
                COVERAGE_HEADER: coverage_among(episodes, self.filter.asked).text,
                RUNNING_HEADER: str(running_among(episodes, self.format)),
            },
        )

    def _definition_header(self, environment: Environment | None) -> dict[str, str]:
        """Return the header with the definition by which episodes count, that of `environment`; if
        it is None, each has its own."""
        if environment is not None:
            return definition_header(definition_of(environment, self.filter.asked))
        parts = self.filter.asked.values()
        texts = [f"{name}={parts.get(name, 'environment')}" for name in DEFINITION_PARAMETERS]
        return {DEFINITION_HEADER: "; ".join(texts)}


def _ids(name: str, text: str) -> list[int]:
    numbers = [id_in(part) for part in text.split(",")]
    ids = [number for number in numbers if number is not None]
    if len(ids) < len(numbers):
        raise BadFilter(name, text, "give episode numbers separated by commas, such as ids=1,2,3")
    if len(ids) > MAX_IDS:
        count = f"{len(ids)} numbers"
        raise BadFilter(name, count, f"up to {MAX_IDS} are allowed; a filter has no such limit")
    return ids
