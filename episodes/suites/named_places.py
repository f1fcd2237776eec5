"""The suites whose names have the words of a text, for the palette."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import reverse

from environments.models import Viewer
from episodes.browsing.named_places import NamedPlace, with_words
from episodes.models import Suite


def _suites(text: str, viewer: Viewer) -> Iterator[NamedPlace]:
    rows = with_words(Suite.objects.seen_by(viewer), text)
    for name in rows.order_by("name").values_list("name", flat=True):
        yield NamedPlace("suite", name, reverse("suite", args=[name]))


NAMED_PLACES = [_suites]
