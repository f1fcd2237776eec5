"""The filters of a selection, as parameters of an address or a form and as a condition on Task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from django.db.models import Q

from environments.curation.conditions import contains, is_flagged, is_from, is_in_bucket, is_in_split, is_tagged
from environments.scoring.buckets import BUCKETS

MAX_IDS = 10_000
SOURCES = ("code", "import", "edit", "played", "dropped")
STATES = ("active", "quarantined")
FLAGS = ("open",)


@dataclass(frozen=True, slots=True)
class Filters:
    """Tasks that satisfy every given filter; with `ids` only these tasks, of the environment if one is given."""

    environment: int | None = None
    split: int | None = None
    """Tasks in this split, quarantined ones included."""
    tag: str = ""
    state: Literal["", "active", "quarantined"] | str = ""
    source: Literal["", "code", "import", "edit", "played", "dropped"] | str = ""
    """Where the task came from first; or `dropped`: a class listed it once and no longer does."""
    bucket: Literal["", "unseen", "hopeless", "learnable", "saturated"] | str = ""
    """Bucket of its success rate, by the thresholds in the settings."""
    search: str = ""
    """A part of the spec, as written or as JSON escapes it; upper and lower case of ASCII letters are the same."""
    ids: tuple[int, ...] = ()
    flags: Literal["", "open"] | str = ""
    """`open` selects tasks that were flagged as broken and that no curator has settled."""

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> Self:
        """The filters in the parameters of an address or a form, which have the fields' names; `ids` joined by commas.

        A parameter that is unknown or cannot be read counts as not given.
        """
        return cls(
            environment=_number(values.get("environment")),
            split=_number(values.get("split")),
            tag=values.get("tag", ""),
            state=_one_of(STATES, values.get("state")),
            source=_one_of(SOURCES, values.get("source")),
            bucket=_one_of(BUCKETS, values.get("bucket")),
            flags=_one_of(FLAGS, values.get("flags")),
            search=values.get("search", "").strip(),
            ids=tuple(number for text in values.get("ids", "").split(",")[:MAX_IDS] if (number := _number(text))),
        )

    def values(self) -> dict[str, str]:
        """Return the parameters that `parse` reads, without fields that are not given."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _written(value) for name, value in given.items() if value not in (None, "", ())}

    def condition(self) -> Q:
        """Return all filters as one condition on a queryset of Task."""
        wanted = Q() if self.environment is None else Q(environment=self.environment)
        if self.ids:
            return wanted & Q(pk__in=self.ids)
        wanted &= Q() if self.split is None else is_in_split(self.split)
        wanted &= is_tagged(self.tag) if self.tag else Q()
        wanted &= Q(state=self.state) if self.state else Q()
        wanted &= is_from(self.source) if self.source else Q()
        wanted &= is_in_bucket(self.bucket) if self.bucket else Q()
        wanted &= is_flagged() if self.flags else Q()
        return wanted & (contains(self.search) if self.search else Q())


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else None


def _one_of(names: tuple[str, ...], text: str | None) -> str:
    return text if text in names else ""


def _written(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
