"""The API key that sends the request: what it may do, its quotas, and what it uses of them now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.http import Http404
from rest_framework import serializers as s
from rest_framework.request import Request
from rest_framework.response import Response

from environments.keys.agent_key import SCOPES
from environments.keys.quota_rows import quota_lines
from environments.models import ApiKey
from environments.quotas import DESCRIPTIONS
from episodes.api.base import ApiView
from episodes.api.openapi import documented


class QuotaSerializer(s.Serializer[Any]):
    name = s.ChoiceField(list(DESCRIPTIONS))
    what = s.CharField(help_text="What it limits")
    limit = s.IntegerField(allow_null=True, help_text="null: no limit")
    used = s.IntegerField(
        allow_null=True, help_text="What is used now; null where every episode is counted by itself"
    )
    set_by = s.ChoiceField(
        ["key", "server"],
        source="source",
        help_text="Whether it is the key's own, or the server's for keys that have none of their "
        "own",
    )


class KeySerializer(s.Serializer[Any]):
    name = s.CharField(help_text="Recorded with everything that the key plays")
    scopes = s.ListField(child=s.ChoiceField(list(SCOPES)), help_text="What it may do")
    environments = s.ListField(
        child=s.CharField(), allow_null=True, help_text="Those it may use; null: all"
    )
    splits = s.ListField(
        child=s.CharField(), allow_null=True, help_text="Splits that it may use; null: all"
    )
    run = s.CharField(help_text="The only run that it may record; empty: any")
    expires = s.DateTimeField(allow_null=True, help_text="null: never")
    quotas = QuotaSerializer(many=True)


class OwnKeyView(ApiView):
    """The key that sends the request. A request without a key gets 404."""

    scopes = ()
    is_always_answered = True

    @documented("key", "keys", KeySerializer)
    def get(self, request: Request) -> Response:
        if self.reader.person is not None:
            raise Http404("This request has no API key; send one in X-API-Key.")
        key = self.reader.key
        row = ApiKey.objects.filter(pk=key.row).first() if key.row else None
        values = {
            "name": key.label,
            "scopes": [scope for scope in SCOPES if key.may(scope)],
            "environments": None if key.environments is None else sorted(key.environments),
            "splits": None if key.splits is None else sorted(key.splits),
            "run": key.run,
            "expires": datetime.fromtimestamp(key.expires, UTC) if key.expires else None,
            "quotas": quota_lines(row.quotas if row else {}, key.usage),
        }
        return Response(KeySerializer(values).data)
