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
from episodes.browsing.episode_list import EpisodeListQuery
from episodes.filtering.columns import with_columns
from episodes.models import Episode
from episodes.models.record import EpisodeQuerySet
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
        *FILTERS,
        "sort",
        "limit",
        "after",
    )
    def get(self, request: Request) -> Response:
        query = EpisodeListQuery.parse(
            request.GET, self.reader.viewer, also=("limit",), size=limit_of(request)
        )
        result = query.result(has_task_names=False)
        self.refuse_unknown(result.unknown)
        for row in result.rows:
            row.episode.snippet = row.snippet  # type: ignore[attr-defined]  # for the serializer
        rows: Any = ListedEpisodeSerializer(
            [row.episode for row in result.rows],
            many=True,
            context=self.context | {"overrides": query.filter.overrides},
        )
        members = {"is_bounded": result.is_bounded, "note": result.note}
        return Response(page(request, rows.data, result.next, result.previous, **members))


def with_members(episodes: EpisodeQuerySet) -> EpisodeQuerySet:
    """Return `episodes` with what EpisodeDetailSerializer needs."""
    rows = episodes.select_related("environment", "split", "task", "run", "prompt", "tools")
    return with_columns(rows.select_related("play__guest__invite__study"))


class EpisodeView(ApiView):
    """One episode with its task, prompt and tools; `steps_url` has its steps."""

    @documented("episode", "episodes", EpisodeDetailSerializer)
    def get(self, request: Request, pk: int) -> Response:
        episode = episode_of(pk, self.reader, with_members(Episode.objects.all()))
        return Response(EpisodeDetailSerializer(episode, context=self.context).data)


def episode_of(pk: int, reader: Reader, episodes: EpisodeQuerySet | None = None) -> Episode:
    """Return the episode among `episodes`; without these, with its status alone.

    Raises: Http404, also if the reader may not see it; PermissionDenied while the reader plays it
    blind.
    """
    rows = Episode.objects.only("pk", "status", "environment_id") if episodes is None else episodes
    episode = rows.seen_by(reader.viewer).filter(pk=pk).first()
    if episode is None:
        mine = "" if reader.key_label is None else " among those that were played with this key"
        raise Http404(f"There is no episode {pk}{mine}.")
    if episode.status == "running" and is_blind_to(reader.person, pk):
        raise PermissionDenied(sentence(pk))
    return episode
