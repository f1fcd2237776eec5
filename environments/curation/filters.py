"""Filters: what may be asked of tasks, as an address or a form has it and as a condition. Under every selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from django.db.models import Q

from environments.curation.conditions import contains, is_flagged, is_from, is_in_bucket, is_tagged, stands_in
from environments.scoring.buckets import BUCKETS

MAX_IDS = 10_000
SOURCES = ("code", "import", "edit", "played", "dropped")
STATES = ("active", "quarantined")
FLAGS = ("open",)


@dataclass(frozen=True, slots=True)
class Filters:
    """Tasks that satisfy all that is given; with `ids` these alone, in the environment if one is given."""

    environment: int | None = None
    split: int | None = None
    """Tasks that stand in it, quarantined ones included."""
    tag: str = ""
    state: Literal["", "active", "quarantined"] | str = ""
    source: Literal["", "code", "import", "edit", "played", "dropped"] | str = ""
    """Where it came from first; or dropped: a class listed it once, and none does now."""
    bucket: Literal["", "unseen", "hopeless", "learnable", "saturated"] | str = ""
    """By the thresholds in the settings."""
    search: str = ""
    """A part of the spec's text, as written or as JSON escapes it; the case of ASCII letters does not matter."""
    ids: tuple[int, ...] = ()
    flags: Literal["", "open"] | str = ""
    """open: somebody said that it is broken, and no curator has settled that."""

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> Self:
        """From the parameters of a URL or form, by the names of the fields above, `ids` joined by commas.

        What is unknown or unreadable counts as not given.
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
        """What `parse` reads; fields that are not given are left out."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _written(value) for name, value in given.items() if value not in (None, "", ())}

    def condition(self) -> Q:
        """All that is asked, as one condition on a queryset of Task."""
        wanted = Q() if self.environment is None else Q(environment=self.environment)
        if self.ids:
            return wanted & Q(pk__in=self.ids)
        wanted &= Q() if self.split is None else stands_in(self.split)
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
