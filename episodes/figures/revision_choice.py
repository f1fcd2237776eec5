"""RevisionChoice: the revision of an environment's code whose episodes alone are counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from environments.filtering.parameters import BadFilter, any_text, given
from environments.models import Viewer
from episodes.filtering.names import revision_ids, revisions, unknown


@dataclass(frozen=True, slots=True)
class RevisionChoice:
    name: str = ""
    """As the address names it; empty: all revisions count."""
    ids: Sequence[int] = ()
    """Ids of its rows; empty: all revisions count."""

    @classmethod
    def parse(cls, parameters: Mapping[str, str], viewer: Viewer) -> Self:
        """Return the choice in an address. Raises: BadFilter."""
        name = given(parameters, "revision", any_text) or ""
        ids = revision_ids(name, viewer) if name else ()
        if name and not ids:
            sentence = unknown("revision", name, revisions(viewer))
            raise BadFilter("revision", name, sentence.rstrip("."))
        return cls(name, ids)
