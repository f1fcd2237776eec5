"""Search: episodes by what was said in them. Asked by the filter of episodes."""

from __future__ import annotations

from django.db.models import QuerySet

from episodes.models import Episode


def matching(text: str) -> QuerySet[Episode]:
    """Episodes whose transcript holds `text`, newest first."""
    return Episode.objects.none()
