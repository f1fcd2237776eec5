"""The formats of exports. A module here declares one or more in its list FORMATS; all modules are
loaded, so a new format is one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from episodes.transfer.export_file import ExportFile


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


_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
_FORMATS: list[ExportFormat] = [format for module in _MODULES for format in module.FORMATS]
MENU = sorted(_FORMATS, key=lambda format: format.position)
"""The formats in the order of lists (`Feature.episode_formats`)."""
EXPORT_FORMATS = {format.name: format for format in MENU}
"""The same by name."""
