"""The suites whose names contain a text, for the palette."""

from __future__ import annotations

from collections.abc import Iterator

from django.urls import reverse

from environments.models import Viewer
from episodes.browsing.named_places import NamedPlace
from episodes.models import Suite


def _suites(text: str, viewer: Viewer) -> Iterator[NamedPlace]:
    rows = Suite.objects.seen_by(viewer).filter(name__icontains=text).order_by("name")
    for name in rows.values_list("name", flat=True):
        yield NamedPlace("suite", name, reverse("suite", args=[name]))


NAMED_PLACES = [_suites]
