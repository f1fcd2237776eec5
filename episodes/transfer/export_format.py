"""What a format of exports is, and the file that it writes. The modules in `formats/` declare the
formats; `exporting.py`, the pages, the API and the command ask here which there are."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import NamedTuple, TypeVar

from django.db.models import QuerySet

from episodes.models import Episode, Rollout
from episodes.transfer.conversations import ReportedConversations
from episodes.transfer.export_source import (
    UNGUARDED,
    EpisodeFacts,
    Recorded,
    facts_of,
    ids_of,
    recorded,
)
from episodes.transfer.prompt_sources import PromptSources
from episodes.transfer.training_options import TrainingOptions
from episodes.visibility import TaskGuard

T = TypeVar("T")


@dataclass(slots=True)
class ExportFile:
    """A file while it is written: what goes into it, how, and what was left out of it."""

    episodes: QuerySet[Episode]
    options: TrainingOptions = field(default_factory=TrainingOptions)
    sources: PromptSources = field(default_factory=PromptSources)
    """Where prompts and tools are from that their clients did not ask for."""
    has_additions: bool = True
    """Whether the file includes what people added, such as notes."""
    guard: TaskGuard = UNGUARDED
    """What of tasks may be in the file."""
    progress: Callable[[int], None] | None = None
    """Called with the number of episodes written so far."""
    count: int = 0
    """Number of conversations or pairs that were written so far."""
    left_out: int = 0
    """Number of conversations or pairs that were left out so far because the input of a call is no
    object."""
    _conversations: ReportedConversations = field(default_factory=ReportedConversations)

    def facts(self) -> Iterator[EpisodeFacts]:
        """Yield the columns of each episode, in the order of ids."""
        return self._reporting(facts_of(ids_of(self.episodes), self.guard))

    def recorded(self) -> Iterator[Recorded]:
        """Yield each episode with its steps, in the order of ids."""
        return self._reporting(recorded(ids_of(self.episodes), self.guard))

    def _reporting(self, rows: Iterator[T]) -> Iterator[T]:
        for count, row in enumerate(rows, 1):
            yield row
            if self.progress:
                self.progress(count)

    def rollout_of(self, episode: int) -> Rollout | None:
        """Return the rollout whose conversation takes the place of the recorded one; None: there is
        none."""
        return self._conversations.of(episode) if self.options.is_reported else None


class ExportLink(NamedTuple):
    """A link of the menu of exports."""

    label: str
    hint: str
    query: str = ""
    """Further parameters of the address."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportFormat:
    name: str
    label: str
    position: int
    """Place among the formats in lists."""
    media_type: str
    extension: str
    pieces: Callable[[ExportFile], Iterator[str | bytes]]
    """Yields the file in pieces, whose size does not grow with the number of episodes."""
    links: Sequence[ExportLink]
    noun: str = "episode"
    """What a line or row stands for."""
    is_importable: bool = False
    """Whether `import_episodes` reads it."""
    has_running: bool = True
    """Whether episodes that have not ended are in the file."""
    why_empty: str = ""
    """The reason why there are episodes but nothing of them in the file; empty: that cannot be."""


@cache
def export_formats() -> dict[str, ExportFormat]:
    """Return the formats by name, in the order of lists."""
    folder = import_module("episodes.transfer.formats")
    modules = [
        import_module(f"{folder.__name__}.{module.name}")
        for module in pkgutil.iter_modules(folder.__path__)
    ]
    rows: list[ExportFormat] = [format for module in modules for format in module.FORMATS]
    return {format.name: format for format in sorted(rows, key=lambda format: format.position)}
