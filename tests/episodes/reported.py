"""Episodes and uploaded rollouts in the database, for tests of what joins them."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from environments.models import Environment
from episodes.models import Episode, Rollout, RolloutMessage
from tests.episodes.recorded import record
from tests.factories import episode_ended, episode_started, step_taken

MESSAGES = [
    ("system_message", "Be brief.", {}),
    ("user_message", "What is <2 + 2>?", {}),
    ("reasoning", "It must be four.", {"summary": "thinking"}),
    ("assistant_message", "Let me check.", {}),
    ("tool_call", '{"text": "hi"}', {"name": "echo", "call_id": "c1"}),
    ("tool_result", "hi", {"call_id": "c1", "reward": 0.5}),
]

OUTPUT = (
    '{"blocks": [{"type": "text", "text": "hi"}], "metadata": null, "reward": 0.5, "finished": '
    "false}"
)


def played(number: int = 1, inputs: tuple[str, ...] = ('{"text":"hi"}',), **fields: Any) -> Episode:
    """Record an episode that started now with one call of `echo` for each input."""
    created = timezone.now().timestamp()
    start = episode_started(
        episode=number, environment="echo", created=created, session_id=f"s-{number}", **fields
    )
    steps = [
        step_taken(
            episode=number,
            index=n,
            tool="echo",
            input_json=text,
            output_json=OUTPUT,
            task_id=f"{number}-{n}",
            reward=0.5,
        )
        for n, text in enumerate(inputs)
    ]
    assert record((start, *steps, episode_ended(episode=number, steps=len(steps)))) == 0
    return Episode.objects.get(pk=number)


def reported(event_id: str = "r-1", messages: Any = MESSAGES, **fields: Any) -> Rollout:
    now = timezone.now()
    values = {
        "is_announced": True,
        "environment": "acme/echo",
        "environment_name": "echo",
        "received": now,
        **fields,
    }
    hosted = Environment.objects.filter(name=values["environment_name"]).first()
    rollout = Rollout.objects.create(event_id=event_id, **{"hosted_environment": hosted, **values})
    for index, (kind, content, further) in enumerate(messages):
        RolloutMessage.objects.create(
            rollout=rollout,
            index=index,
            event_id=str(index),
            kind=kind,
            content=content,
            received=now,
            **further,
        )
    return rollout
