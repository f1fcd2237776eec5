"""People among the players: their episodes, and the names under which those stand. Few beside what agents play.

A name is the label of the record: `@` before an account's name, and the guest's number after a guest's.
"""

from __future__ import annotations

from django.db.models import Q, QuerySet

from episodes.models import Episode, Guest

MAX_LOOKED_AT = 50_000
"""Newest episodes of people among which names are looked for."""


def people() -> QuerySet[Episode]:
    """Episodes that people play or played, along the index of the players that are no agents."""
    return Episode.objects.filter(~Q(player="agent"), player="human")


def person_of(episode: Episode) -> str:
    """Empty when no person played it."""
    return episode.key_label if episode.player == "human" else ""


def label_of(guest: Guest) -> str:
    """No username has a bracket, so no account is taken for a guest."""
    return f"@{guest.name} (guest {guest.pk})"


def names() -> list[str]:
    """Whoever played lately, in alphabetical order."""
    newest = people().order_by("-pk").values_list("key_label", flat=True)[:MAX_LOOKED_AT]
    return sorted(set(newest) - {""})
