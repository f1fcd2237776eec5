"""Adds to the demo's database what a client would have uploaded. The tests of docs/trainers call
it."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from episodes.models import Episode, Rollout, RolloutMessage
from episodes.rollups.follower import catch_up

METADATA = '{"metadata": {"usage": {"prompt_tokens": 120, "completion_tokens": 30}, "cost": 0.002}}'


def upload() -> None:
    """Add a conversation with reasoning to every second episode of `math`."""
    now = timezone.now()
    for episode in Episode.objects.filter(environment__name="math", steps_count__gt=0).order_by(
        "pk"
    )[::2]:
        rollout = Rollout.objects.create(
            event_id=f"uploaded-{episode.pk}",
            is_announced=True,
            key_label=episode.key_label,
            environment="local/math",
            environment_name="math",
            event=f'{{"metadata": {{"session_id": "{episode.session_id}"}}}}',
            received=now,
        )
        messages: list[tuple[str, str, dict[str, Any]]] = [
            ("system_message", "You solve word problems. Answer with one number.", {}),
            ("user_message", "A word problem.", {}),
        ]
        for step in episode.steps.select_related("input_blob").order_by("index"):
            messages += [
                ("reasoning", "I add the numbers up\nand check the sum.", {"extra": METADATA}),
                ("assistant_message", "I submit my answer.", {"extra": METADATA}),
                (
                    "tool_call",
                    step.input_json,
                    {"name": step.tool, "call_id": f"c{step.index}", "extra": METADATA},
                ),
                ("tool_result", "Noted.", {"call_id": f"c{step.index}", "reward": step.reward}),
            ]
        RolloutMessage.objects.bulk_create(
            RolloutMessage(
                rollout=rollout,
                index=index,
                event_id=str(index),
                kind=kind,
                content=text,
                received=now,
                **more,
            )
            for index, (kind, text, more) in enumerate(messages)
        )
    catch_up()
