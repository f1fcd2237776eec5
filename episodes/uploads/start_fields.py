"""What the event that announces a rollout says about its run, its model and its session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from environments.database.storable import storable
from environments.wire import value_json

OWN_ID = "orsweb_run_id"
"""Name, in the metadata of a rollout or beside its runName, of the id that a client gave its
run."""
UNDECIDED = "no run was chosen"
"""Start of the problem of a rollout whose run is not known, though runs have its runName."""


def word_in(fields: Mapping[str, Any], name: str, limit: int = 200) -> str:
    value = fields.get(name)
    return (
        storable(value if isinstance(value, str) else value_json(value), limit)
        if value is not None
        else ""
    )


def model_named(fields: Mapping[str, Any]) -> str:
    """Return the model that the event of a rollout names; empty if it names none."""
    return word_in(run_info_of(fields), "model_name")


def run_info_of(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    run_info = fields.get("run_info")
    return run_info if isinstance(run_info, dict) else {}


def title_in(fields: Mapping[str, Any]) -> str:
    """Return the title of the run, or the name of one, that the event of a rollout says; empty
    without one."""
    return word_in(fields, "runName").strip()


def own_id_in(fields: Mapping[str, Any]) -> str:
    metadata = fields.get("metadata")
    return word_in(fields, OWN_ID) or (
        word_in(metadata, OWN_ID) if isinstance(metadata, dict) else ""
    )


def shared_title(fields: Mapping[str, Any]) -> str:
    """Return what the event of a rollout calls its run, if it gives no id: the title of one or
    several, or a name."""
    return "" if own_id_in(fields) else title_in(fields)


def session_in(values: Any) -> str:
    """Return the session id in metadata; empty if there is none."""
    if not isinstance(values, dict):
        return ""
    ids = (values.get(name) for name in ("session_id", "sessionId"))
    return storable(next((text for text in ids if isinstance(text, str) and text), ""))
