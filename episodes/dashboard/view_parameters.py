"""Parameters that the addresses of several pages share: the parts of the definition in force, and
numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode

from django.http import HttpRequest

from environments.display.numbers import digits_of
from environments.filtering.parameters import chosen, given
from environments.models import Environment
from environments.scoring.definition import (
    Definition,
    DefinitionOverrides,
    Definitions,
    definition_of,
)
from environments.scoring.returns import RETURNS, Return
from episodes.attempts.conventions import parts_in_address


def definition_context(
    definition: Definition, own: Environment | None, *, is_in_address: bool = True
) -> dict[str, Any]:
    """Return the template variables of `orsweb/definition.html` for a page with one definition in
    force.

    `own`: the environment that the page is about, if it is about one. `is_in_address`: whether the
    addresses of lists on the page name it.
    """
    base = definition_of(own)
    parts = parts_in_address(definition.convention, own if is_in_address else None)
    if definition.threshold != base.threshold:
        parts["threshold"] = digits_of(definition.threshold)
    return {
        "definition": definition.return_,
        "threshold": definition.threshold,
        "convention": definition.convention,
        "own_definition": own.default_return if own else "",
        "own_convention": base.convention,
        "convention_query": _query(parts),
    }


def definitions_context(
    definitions: Definitions, overrides: DefinitionOverrides, own: Environment | None = None
) -> dict[str, Any]:
    """Return the template variables of `orsweb/definition.html` for a page about episodes of any
    environments.

    `overrides`: what the address gives; `own`: the environment of all episodes, if they have only
    one.
    """
    if isinstance(definitions, Definition):
        return definition_context(definitions, own, is_in_address=False)
    return overrides_context(overrides)


def overrides_context(overrides: DefinitionOverrides) -> dict[str, Any]:
    """Return the template variables of `orsweb/definition.html` for a page on which each
    environment has its own."""
    return {
        "definition": overrides.return_ or "",
        "threshold": overrides.threshold,
        "convention": overrides,
        "own_definition": "",
        "convention_query": _query(overrides.list_parts),
    }


def _query(parts: Mapping[str, str]) -> str:
    """Return the end of a query string, which makes a list count by the convention of the page."""
    return f"&{urlencode(parts)}" if parts else ""


def return_in(request: HttpRequest, environment: Environment) -> Return:
    """Return the definition of the return in the address, else the environment's. Raises:
    BadFilter."""
    definition = given(request.GET, "return", chosen(RETURNS))
    return definition or cast(Return, environment.default_return)
