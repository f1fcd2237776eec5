"""Spans of scopes: what their endings say by training step. Made for `cover.py` and `zoom.py`."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from episodes.analytics.blocks import TALLY, Block, tally_read
from episodes.analytics.definition import Definition
from episodes.analytics.scope import Scope
from episodes.derived import StepSpan
from episodes.endings import rows_of

_OF_SCOPE = "(scope = %s AND scope_id = %s)"


def read_spans(scopes: Sequence[Scope], definition: Definition) -> dict[Scope, list[Block]]:
    """Of each scope, by training step. One query, or none."""
    values = [value for scope in scopes for value in (scope.kind, scope.id)]
    chosen = RawSQL(" OR ".join([_OF_SCOPE] * len(scopes)), values, BooleanField())
    columns = ("scope", "scope_id", "step_low", "step_high", *TALLY, definition.column, "length")
    rows = rows_of(StepSpan.objects.filter(chosen).values_list(*columns)) if scopes else []
    found: dict[tuple[str, int], list[Block]] = {(scope.kind, scope.id): [] for scope in scopes}
    for kind, key, low, high, *row in rows:
        found[kind, key].append(Block(low, low, high, tally_read(row)))
    return {scope: sorted(found[scope.kind, scope.id], key=lambda span: span.first) for scope in scopes}
