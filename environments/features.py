"""Features: folders beside the core that it does not import. The setting FEATURES lists them.

Each has a module `feature.py` whose FEATURE says what it adds to the site. The core asks here and
knows no names, so a feature that is left out of the list is gone with its pages, links and JSON.
Its tables stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple

from django.conf import settings
from django.urls import NoReverseMatch, URLPattern, URLResolver, reverse
from django.utils.module_loading import import_string


@dataclass(frozen=True, slots=True)
class MenuPage:
    """A page in the left rail of all pages."""

    name: str
    """The name of its URL."""
    label: str
    key: str
    """The key that opens the page after `g`."""
    icon: str
    """An SVG path within the view box 0 0 24 24, drawn as a line."""
    sections: tuple[str, ...] = ()
    """First segments of further paths that belong to the page."""
    is_foot: bool = False
    """Whether the foot of the rail starts here."""
    is_on_phones: bool = False
    """Whether the bar on phones has it; other pages are behind its button."""
    after: str = ""
    """Name of the URL of the page that it follows, for a page of a feature."""


class PageLink(NamedTuple):
    label: str
    name: str
    """Name of the URL."""
    title: str = ""
    """What is shown on hover."""
    is_part_of_run: bool = False
    """Whether the page of a run shows what the page answers to htmx (a request with the header
    HX-Request) for `?run=`."""


class PaletteAction(NamedTuple):
    label: str
    name: str
    """Name of the URL of the page where it is done."""
    arguments: tuple[str, ...] = ()
    """Those of the URL."""
    rest: str = ""
    """What follows the path in the address: a query string or a fragment."""
    permission: str = ""
    """Permission that it needs besides that of the page."""
    kind: Literal["action", "page"] = "action"
    """Whether people go there to do it, or to read."""


class AdminLink(NamedTuple):
    label: str
    name: str
    """Name of the URL."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Feature:
    """What a feature adds. Modules are named by their dotted paths, because settings are read
    before models load."""

    urls: str = ""
    """Module with the URL patterns of its pages, `pages`, of its JSON, `api`, and of its
    websockets, `sockets`; those that it has. Empty if there are none."""
    agent_urls: str = ""
    """Module with the URL patterns for agents, `urlpatterns`; empty if there are none."""
    permissions: Mapping[str, str] = field(default_factory=dict)
    """Permission by the name of a page's URL; empty if the page needs none. All other pages need
    SEE_PAGES."""
    permissions_to_change: Mapping[str, str] = field(default_factory=dict)
    """The same for requests that change something, where it is not that of the page."""
    menu: Sequence[MenuPage] = ()
    """Its pages in the left rail."""
    environment_pages: Sequence[PageLink] = ()
    """Pages about an environment. Their addresses take its name, and `?run=`."""
    lists: Sequence[PageLink] = ()
    """Pages that the list of environments leads to."""
    actions: Sequence[PaletteAction] = ()
    """What the palette (Ctrl K) offers to do."""
    admin: str = ""
    """Module that registers its pages of the admin; empty if there are none."""
    admin_pages: Sequence[AdminLink] = ()
    """Links of the admin's menu."""
    episode_filters: str = ""
    """Sequence of further parameters of the filter of episodes
    (`environments/filtering/filters.py`)."""
    episode_formats: str = ""
    """Sequence of the formats in which episodes can be downloaded, for menus (`ExportFormat` in
    `episodes/transfer/formats/`)."""
    run_verdicts: str = ""
    """Function that returns what is said first about runs, by their ids; empty if there is none
    (`episodes/figures/run_verdicts.py`)."""
    named_places: str = ""
    """Sequence of functions that yield the places whose names contain a text, for the palette
    (`episodes/browsing/named_places.py`)."""
    upkeep: str = ""
    """Module whose functions `start` and `stop` are called when a server starts and stops; empty if
    there is none."""
    quotation: str = ""
    """Function that returns a sentence if the feature quotes the tasks of a split, else an empty
    string."""


@cache
def features() -> tuple[Feature, ...]:
    return tuple(import_string(f"{folder}.feature.FEATURE") for folder in settings.FEATURES)


def named(field: str) -> list[Any]:
    """Return the members of the sequences that features name in a field, `episode_filters`."""
    paths = [getattr(feature, field) for feature in features()]
    return [member for path in paths if path for member in import_string(path)]


def url_patterns(kind: Literal["pages", "api", "sockets"]) -> list[URLPattern | URLResolver]:
    """Return the patterns of all features: those of the JSON are below /api/, all others below the
    root of the site."""
    modules = [import_module(feature.urls) for feature in features() if feature.urls]
    return [pattern for module in modules for pattern in getattr(module, kind, ())]


def agent_url_patterns() -> list[URLPattern]:
    modules = [import_module(feature.agent_urls) for feature in features() if feature.agent_urls]
    return [pattern for module in modules for pattern in module.urlpatterns]


def upkeep() -> list[Any]:
    """Return the modules that features name in `upkeep`."""
    return [import_module(feature.upkeep) for feature in features() if feature.upkeep]


def url_of_page(name: str, *args: object) -> str:
    """Return the URL with this name; empty if the feature that has the page is left out."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return ""
