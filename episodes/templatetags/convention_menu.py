"""Template tag for the menu that switches parts of the convention in force."""

from __future__ import annotations

from dataclasses import dataclass

from django import template

from environments.scoring.convention import CONVENTION_PARTS, Convention

register = template.Library()

_LABELS = {
    "no_call": "No tool call",
    "expired": "Expired",
    "interrupted": "Interrupted",
    "env_error": "Environment failed",
}
_WORDS = {"keep": "own return", "zero": "counts as 0", "out": "left out"}


@dataclass(frozen=True, slots=True)
class ConventionChoice:
    parameter: str
    value: str | None
    """Value in the address; None for the default, which the address does not name."""
    words: str
    is_chosen: bool
    is_default: bool


@register.simple_tag(takes_context=True)
def convention_switches(context: template.Context) -> list[tuple[str, list[ConventionChoice]]]:
    """Return the label and the choices of each part of the convention, the default first marked.

    Reads `convention` (a Convention, or a DefinitionOverrides on pages with many environments) and
    `own_convention`.
    """
    convention, own = context.get("convention"), context.get("own_convention") or Convention()
    switches = []
    for name, values in CONVENTION_PARTS.items():
        default = getattr(own, name)
        current = getattr(convention, name, None) or default
        choices = [
            ConventionChoice(
                name,
                None if value == default else value,
                _WORDS[value],
                value == current,
                value == default,
            )
            for value in values
        ]
        switches.append((_LABELS[name], choices))
    return switches


@register.simple_tag(takes_context=True)
def convention_changes(context: template.Context) -> str:
    """Return the parts of the convention that differ from the default of the page, such as
    "no_call=out"."""
    switches = convention_switches(context)
    changes = [
        choice
        for _, choices in switches
        for choice in choices
        if choice.is_chosen and not choice.is_default
    ]
    return ", ".join(f"{choice.parameter}={choice.value}" for choice in changes)


@register.simple_tag(takes_context=True)
def querystring_with(context: template.Context, name: str, value: str | None) -> str:
    """Return the query string of the page with one parameter set, or removed if `value` is None;
    the page restarts."""
    query = context["request"].GET.copy()
    for parameter in (name, "after", "part"):
        query.pop(parameter, None)
    if value is not None:
        query[name] = value
    return f"?{query.urlencode()}"
