"""The list of episodes with the filters of the pages, and single episodes."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from episodes.api.auth import Reader
from episodes.api.base import ANY, ApiView, limit_of, page
from episodes.api.openapi import FILTERS, documented
from episodes.api.serializers import (
    EpisodeDetailSerializer,
    ListedEpisodeSerializer,
    page_serializer,
)
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.page import page_of, with_snippets
from episodes.models import Episode
from episodes.models.privacy import visible_episodes
from episodes.rollups.search_note import search_note
from episodes.visibility import is_blind_to, sentence

_BOUNDED = serializers.BooleanField(
    help_text="Only the newest 1,000,000 episodes were searched or sorted; always false below that "
    "many"
)
_NOTE = serializers.CharField(
    help_text="What a search for text leaves out, in sentences; empty if that is nothing"
)


class EpisodesView(ApiView):
    """Episodes, newest first unless `sort` is given; for a key, those that were played with it."""

    parameters = ANY

    @documented(
        "episodes",
        "episodes",
        page_serializer(ListedEpisodeSerializer, "EpisodePage", is_bounded=_BOUNDED, note=_NOTE),
        *(*FILTERS, "sort", "limit", "after"),
    )
    def get(self, request: Request) -> Response:
        asked = asked_of(request, self.reader, "sort", "after", "limit")
        found = page_of(
            asked, request.GET.get("sort", ""), request.GET.get("after", ""), limit_of(request)
        )
        self.refuse_unknown(found.unknown)
        for row in (found := with_snippets(found, asked)).rows:
            row.episode.snippet = row.snippet  # type: ignore[attr-defined]  # for the serializer
        rows: Any = ListedEpisodeSerializer(
            [row.episode for row in found.rows], many=True, context=self.context
        )
        members = {"is_bounded": found.is_bounded, "note": note_of(asked)}
        return Response(page(request, rows.data, found.next, found.previous, **members))


RELATED = ("environment", "split", "task", "run", "prompt", "tools", "play__guest__invite__study")
"""What an episode needs to be written with all of its members."""


class EpisodeView(ApiView):
    """One episode with its task, prompt and tools; `steps_url` has its steps."""

    @documented("episode", "episodes", EpisodeDetailSerializer, may_miss=True)
    def get(self, request: Request, pk: int) -> Response:
        episode = episode_of(pk, self.reader, *RELATED)
        return Response(EpisodeDetailSerializer(episode, context=self.context).data)


def asked_of(request: Request, reader: Reader, *also: str) -> EpisodeFilter:
    """Return the filter in the address, limited to what the reader may see. Raises: BadFilter."""
    return EpisodeFilter.parse(request.GET, also=also, viewer=reader.viewer)


def note_of(asked: EpisodeFilter) -> str:
    """Return what a search for text leaves out, in sentences; empty if that is nothing."""
    if asked.text is None:
        return ""
    return search_note(asked.text, visible_episodes(asked.viewer))


def episode_of(pk: int, reader: Reader, *related: str) -> Episode:
    """Return the episode.

    Raises: Http404, also if the reader may not see it; PermissionDenied while the reader plays it
    blind.
    """
    rows = (
        Episode.objects.select_related(*related)
        if related
        else Episode.objects.only("pk", "status", "environment_id")
    )
    episode = rows.seen_by(reader.viewer).filter(pk=pk).first()
    if episode is None:
        mine = "" if reader.key_label is None else " among those that were played with this key"
        raise Http404(f"There is no episode {pk}{mine}.")
    if episode.status == "running" and is_blind_to(reader.person, pk):
        raise PermissionDenied(sentence(pk))
    return episode
