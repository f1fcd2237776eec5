"""Rollouts that clients uploaded, with the filters of the list page, and single ones with their
messages."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from environments.filtering.parameters import count_in, given
from episodes.api.auth import Reader
from episodes.api.base import ApiView, fitting, limit_of, page
from episodes.api.openapi import described, documented, parameter
from episodes.api.serializers import page_serializer
from episodes.api.serializers_rollouts import (
    RolloutDetailSerializer,
    RolloutMessageSerializer,
    RolloutSerializer,
)
from episodes.browsing.rollout_list import RolloutListQuery
from episodes.filtering.rollouts import RolloutFilter
from episodes.models import Rollout, RolloutMessage
from episodes.uploads.rollout_figures import with_current_figures
from episodes.visibility import blind_to, is_blind_to, sentence

MAX_CHARACTERS = 16 * 1024 * 1024
"""Texts of a page of messages. A page ends before the message that would exceed this, but has at
least one."""


_NOTE = serializers.CharField(
    help_text="What a search for text leaves out, in sentences; empty if that is nothing"
)


class RolloutListView(ApiView):
    """Rollouts that clients uploaded, newest first; for a key, those that were uploaded with it."""

    parameters = (*RolloutFilter.parameters(), "limit", "after")

    @documented(
        "rollouts",
        "rollouts",
        page_serializer(RolloutSerializer, "RolloutPage", note=_NOTE),
        "environment",
        "run",
        "model",
        *(described(RolloutFilter.parameters()[name]) for name in ("joined", "episode", "text")),
        "limit",
        parameter("after", "Cursor of a page; take it from `next`"),
    )
    def get(self, request: Request) -> Response:
        query = RolloutListQuery.parse(
            request.GET, self.reader.viewer, also=("limit",), size=limit_of(request)
        )
        result = query.result(list(blind_to(self.reader.person)))
        shape: Any = RolloutSerializer(result.rollouts, many=True, context={"request": request})
        return Response(page(request, shape.data, result.next, note=result.note))


class RolloutView(ApiView):
    """One rollout with what its client said about it; `messages_url` has its messages."""

    @documented("rollout", "rollouts", RolloutDetailSerializer)
    def get(self, request: Request, pk: int) -> Response:
        rollout = rollout_of(pk, self.reader)
        with_current_figures([rollout])
        return Response(RolloutDetailSerializer(rollout, context={"request": request}).data)


class RolloutMessagesView(ApiView):
    """Messages of a rollout in order. `after` is the cursor of a page."""

    parameters = ("limit", "after")

    @documented(
        "rollout_messages",
        "rollouts",
        page_serializer(RolloutMessageSerializer, "RolloutMessagePage"),
        "limit",
        parameter("after", "Cursor of a page; take it from `next`", kind=int),
    )
    def get(self, request: Request, pk: int) -> Response:
        limit, after = limit_of(request), given(request.GET, "after", count_in, 0)
        rows = rollout_of(pk, self.reader).messages.order_by("index", "id")
        rows = rows.select_related("content_blob", "summary_blob", "extra_blob")
        following = list(rows[after : after + limit + 1])
        messages = fitting(following, limit, _characters_of, MAX_CHARACTERS)
        shape: Any = RolloutMessageSerializer(messages, many=True)
        has_more = len(following) > len(messages)
        return Response(page(request, shape.data, after + len(messages) if has_more else None))


def rollout_of(pk: int, reader: Reader) -> Rollout:
    """Return the rollout.

    Raises: Http404, also if the reader may not see it; PermissionDenied while the reader plays its
    episode blind.
    """
    rows = Rollout.objects.select_related("run", "event_blob", "episode__split")
    rollout = rows.seen_by(reader.viewer).filter(pk=pk).first()
    if rollout is None:
        mine = "" if reader.key_label is None else " among those that were uploaded with this key"
        raise Http404(f"There is no rollout {pk}{mine}.")
    if rollout.episode_id is not None and is_blind_to(reader.person, rollout.episode_id):
        raise PermissionDenied(sentence(rollout.episode_id))
    return rollout


def _characters_of(message: RolloutMessage) -> int:
    return len(message.text) + len(message.summary_text) + len(message.extra_json)
