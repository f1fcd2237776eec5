"""A filter as options of a command: one for each parameter, and --query with that of an address."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

from django.core.management.base import CommandParser

from environments.command_line import filled
from environments.filtering.filters import Parameter
from environments.filtering.parameters import BadFilter, refuse_blanks


def add_filter(
    parser: CommandParser,
    parameters: Iterable[Parameter],
    example: str = "",
    what: str = "an episode",
) -> None:
    """Add an option for each of the parameters, and --query, whose help has `example`, if there is
    one."""
    title = f"as in the addresses of pages; {what} must match all of it"
    group = parser.add_argument_group("filter", title)
    if example:
        group.add_argument("--query", type=filled, metavar="FILTER", help=f'all of it: "{example}"')
    for parameter in parameters:
        choices = f" ({', '.join(parameter.choices)})" if parameter.choices else ""
        group.add_argument(
            f"--{parameter.name.replace('_', '-')}",
            dest=f"filter_{parameter.name}",
            type=filled,
            metavar="VALUE",
            help=parameter.text.replace("`", "") + choices,
        )


def filter_in(options: dict[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return the parameters that the options give; none if no filter was given.

    Raises: BadFilter for a blank value, as of an unset shell variable, and for two values.
    """
    pairs = parse_qsl((options.get("query") or "").removeprefix("?"), keep_blank_values=True)
    for name in names:
        if (value := options.get(f"filter_{name}")) is not None:
            pairs.append((name, value))
    query = dict[str, str]()
    for name, value in pairs:
        if query.setdefault(name, value) != value:
            raise BadFilter(name, value, f"it also has the value {query[name]!r}; give one")
    refuse_blanks(query)
    return query
