"""A filter as options of a command: --query with that of an address, and an option for each
parameter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

from django.core.management.base import CommandParser

from environments.command_line import filled
from episodes.filtering.parameters import BadFilter, refuse_blanks


def add_filter(
    parser: CommandParser, names: Iterable[str], example: str, what: str = "an episode"
) -> None:
    """Add --query, whose help has `example`, and an option for each of the parameters `names`."""
    title = f"as in the addresses of pages; {what} must match all of it"
    filters = parser.add_argument_group("filter", title)
    filters.add_argument("--query", type=filled, metavar="FILTER", help=f'all of it: "{example}"')
    for name in names:
        option = f"--{name.replace('_', '-')}"
        filters.add_argument(option, dest=f"filter_{name}", type=filled, metavar="VALUE")


def filter_in(options: dict[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return the parameters that the options give; none if no filter was given.

    Raises: BadFilter for a blank value, as of an unset shell variable, and for two values.
    """
    pairs = parse_qsl((options["query"] or "").removeprefix("?"), keep_blank_values=True)
    pairs += [(name, value) for name in names if (value := options[f"filter_{name}"]) is not None]
    query = dict[str, str]()
    for name, value in pairs:
        if query.setdefault(name, value) != value:
            raise BadFilter(name, value, f"it also has the value {query[name]!r}; give one")
    refuse_blanks(query)
    return query
