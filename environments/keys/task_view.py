"""What a key without the scope `curate` may read of a task, and how it names one that it cannot
read.

It reads a task without its hidden fields, and nothing of a task of a sealed split. In their place
it gets a reference, `{"orsweb_task": {"split", "index", "hash"}}`. A session that is opened with a
reference plays the task that it names, so a client that lists tasks and opens sessions with what it
got works without a change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.crypto import constant_time_compare, salted_hmac

from environments.errors import InvalidRequest, shorten
from environments.models.task_hash import content_hash
from environments.wire import value_json

REFERENCE = "orsweb_task"
"""Member of a listed task that holds the reference to it."""


def public_hash(task_hash: str) -> str:
    """Return a hash that identifies a task on this server, made with the server's secret.

    Somebody who sees the rest of a task could find a short answer by trying all answers against the
    task's own hash.
    """
    return salted_hmac("orsweb.task", task_hash, algorithm="sha256").hexdigest()


def visible_spec(spec: str, hidden_fields: frozenset[str] | None, *, is_sealed: bool) -> str:
    """Return the JSON of the task without its hidden fields; empty if nothing of it may be read.

    `hidden_fields` is None if it is not known which those are.
    """
    if is_sealed or hidden_fields is None:
        return ""
    if not hidden_fields:
        return spec
    value = json.loads(spec)
    if not isinstance(value, dict):
        return ""
    visible_fields = {name: value[name] for name in value if name not in hidden_fields}
    return spec if len(visible_fields) == len(value) else value_json(visible_fields)


@dataclass(frozen=True, slots=True)
class TaskReference:
    """The place of a task in a split, and the `public_hash` of the task that was listed there."""

    split: str
    index: int
    hash: str

    @classmethod
    def of(cls, spec: Mapping[str, Any] | None) -> TaskReference | None:
        """Return the reference in the task of a request; None if it has none. Raises:
        InvalidRequest."""
        if not spec or REFERENCE not in spec:
            return None
        value = spec[REFERENCE]
        kinds = {"split": str, "index": int, "hash": str}
        if (
            not isinstance(value, Mapping)
            or {name: type(value.get(name)) for name in kinds} != kinds
        ):
            raise InvalidRequest(
                f"{REFERENCE} in task_spec is {shorten(value_json(value), 100)}; it must be as the "
                "task was listed, with split, index and hash"
            )
        return cls(value["split"], value["index"], value["hash"])

    @classmethod
    def to(cls, split: str, index: int, spec: str) -> TaskReference:
        """Return the reference to a task with this JSON."""
        return cls(split, index, public_hash(content_hash(spec)))

    def check(self, spec: str) -> None:
        """Check that the task at this place is still the one that was listed. Raises:
        InvalidRequest."""
        if not constant_time_compare(self.hash, public_hash(content_hash(spec))):
            raise InvalidRequest(
                f"Split {self.split!r} has another task at index {self.index} than the one that "
                "was listed; list its tasks again"
            )

    def added_to(self, spec: str) -> str:
        """Return the JSON of the task with this reference."""
        value = json.loads(spec) if spec else {}
        reference = {"split": self.split, "index": self.index, "hash": self.hash}
        return value_json({**value, REFERENCE: reference})
