"""Check: a row on its own, as a candidate for a task. What the database says of it comes later, in `review`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass

from environments import task_schema
from environments.spec import Unfit, spec_text
from environments.transfer.reserved import Labels, separated
from environments.transfer.rows import BadRow, Refusal, Row


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row that is fit to be a task."""

    number: int
    text: str
    """The spec as it would be stored."""
    hash: str
    """The identity of that content, as `environments.sync.content_hash` of the text."""
    labels: Labels

    @property
    def origin(self) -> str | None:
        """Hash of the task that it is a new content of."""
        return self.labels.hash if self.labels.hash != self.hash else None


_sorted_text: Callable[[object], str] = json.JSONEncoder(sort_keys=True).encode


def checked(row: Row | Refusal, schema: str, own: Collection[str]) -> Candidate | Refusal:
    """`schema`: the environment's JSON Schema as text, empty for none. `own`: names that it declares."""
    if isinstance(row, Refusal):
        return row
    try:
        spec, labels = separated(row.value, own)
        text = spec_text(spec)
    except (BadRow, Unfit) as error:
        return Refusal(row.number, str(error))
    if problems := task_schema.check(schema, spec):
        return Refusal(row.number, f"does not fit the task schema: {problems[0]}")
    # of the value that was read: one parse less than of the text, and the same
    digest = hashlib.sha256(_sorted_text(spec).encode()).hexdigest()
    return Candidate(row.number, text, digest, labels)
