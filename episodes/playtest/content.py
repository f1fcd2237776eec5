"""Content: what a player is told of the task's fields: none while they play, as agents get none, and all but the hidden
ones when it has ended. Reads the record."""

from __future__ import annotations

import json
from typing import Any

from environments import parts
from environments.hidden import hidden_fields
from episodes.cards import said
from episodes.models import Episode

SHOWN_CHARACTERS = 4_000
"""Of one field."""


def content_of(episode: Episode) -> dict[str, Any]:
    """What `playtest/content.html` shows. `episode` has its environment and task."""
    hidden = hidden_fields(episode.environment.name)
    told = {"is_told": episode.status != "running", "spec": [], "hidden_count": 0, "is_hosted": hidden is not None}
    if not told["is_told"] or hidden is None or not isinstance(json.loads(episode.task.spec), dict):
        return told
    fields = parts.fields(episode.task.spec, SHOWN_CHARACTERS)
    shown = [one for one in fields if one.label not in hidden]
    return told | {"spec": said(shown, "spec"), "hidden_count": len(fields) - len(shown)}
