"""Events as the recorder of openreward sends them, and their upload."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx

from episodes.models import Rollout, RolloutMessage
from tests.environments.agents.ors.serving import in_database

NOW_MS = 1_700_000_000_000


def rollout(event_id: str, **fields: Any) -> dict[str, Any]:
    return {
        "eventType": "rollout",
        "eventId": event_id,
        "timestamp": NOW_MS,
        "runName": "grpo",
        **fields,
    }


def message(
    rollout_id: str, position: int, kind: str = "assistant_message", **fields: Any
) -> dict[str, Any]:
    return {
        **{
            "eventType": "message",
            "eventId": str(uuid.uuid4()),
            "timestamp": NOW_MS + position,
            "index": position,
        },
        **{
            "rolloutEventId": rollout_id,
            "type": kind,
            "isFinished": False,
            "metadata": {},
            "content": f"text {position}",
        },
        **fields,
    }


def update(rollout_id: str, timestamp: int, **info: Any) -> dict[str, Any]:
    return {
        "eventType": "rollout_update",
        "eventId": rollout_id,
        "timestamp": timestamp,
        "rollout_info": info,
    }


async def upload(client: httpx.AsyncClient, *events: Any, key: str = "") -> httpx.Response:
    headers = {"Content-Type": "application/json", **({"X-API-Key": key} if key else {})}
    return await client.post(
        "/v1/rollouts", content=json.dumps({"events": events}), headers=headers
    )


async def stored(event_id: str) -> Rollout:
    """Return the rollout; a test fails if there is none."""
    return await in_database(lambda: Rollout.objects.select_related("run").get(event_id=event_id))


async def messages_of(event_id: str) -> list[RolloutMessage]:
    related = RolloutMessage.objects.select_related("content_blob", "summary_blob", "extra_blob")
    return await in_database(lambda: list(related.filter(rollout__event_id=event_id)))
