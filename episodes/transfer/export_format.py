"""What a format of exports is. The modules in `formats/` declare the formats; `exporting.py`, the
pages, the API and the command ask here which there are."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
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
