"""The sentence about a name that no environment has, for pages, the API and commands."""

from __future__ import annotations

from collections.abc import Collection

from environments import command_line
from environments.errors import nearest, shorten
from environments.models import Environment, Viewer

MAX_LISTED = 20
"""Number of environments that the sentence names."""
MAX_NAME_CHARACTERS = 100


def unknown_environment(name: str, viewer: Viewer, usable: Collection[str] | None = None) -> str:
    """Return the sentence that no environment has this name, with the nearest names or else some of
    the others.

    `usable`: names of those that the key of the viewer may use; None: all.
    """
    rows = Environment.objects.seen_by(viewer).order_by("position", "name")
    if usable is not None:
        rows = rows.filter(name__in=usable)
    names = list(rows.values_list("name", flat=True))
    start = f"No environment is named {shorten(repr(name), MAX_NAME_CHARACTERS)}."
    if not names:
        return (
            f"{start} There are none yet: {command_line.command('sync_environments')} creates them."
        )
    if near := nearest(name, names, MAX_LISTED):
        return start + near
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    verb = "are" if len(names) > 1 else "is"
    return f"{start} There {verb} {', '.join(map(repr, names[:MAX_LISTED]))}{more}."
