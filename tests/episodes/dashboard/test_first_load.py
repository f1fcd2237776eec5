"""The size of the first load of a replay, whatever its episode holds."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from environments.models import TaskFlag
from episodes.models import (
    Episode,
    EpisodeComponent,
    Note,
    RedactedEpisode,
    Redaction,
    RewardComponent,
    Rollout,
    RolloutMessage,
)
from tests.episodes.dashboard.page_weight import weight
from tests.stored import NOW, make_blob, make_environment, make_episode, make_step, make_task

pytestmark = pytest.mark.django_db

MAX_KB = 250
CODE = "def f(x):\n    return {'a': [x + 1, x - 2], '<&>': (x, not x)}\n" * 80
"""Highlighted code has the most HTML for each character."""
JSON = {f"<member & {n}>": [n, None, True, "'\"<&>"] for n in range(400)}
VALUES = ("value_sum", "value_last", "value_max", "value_mean")
PIXEL = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
BLOCKS = [
    *({"type": "text", "text": CODE} for _ in range(2)),
    PIXEL,
    *({"type": "text", "text": "&" * 400} for _ in range(6)),
]


def worst() -> Episode:
    """Return an episode of which every part is too large."""
    task = make_task({f"<field {n}>": CODE for n in range(50)}, make_environment())
    schema = {
        "type": "object",
        "properties": {f"<&{n}>": {"type": "string", "description": CODE} for n in range(60)},
    }
    tools = {
        "tools": [
            {"name": f"<tool {n}>", "description": CODE, "input_schema": schema} for n in range(30)
        ]
    }
    prompt = [{"role": "user", "blocks": BLOCKS} for _ in range(8)]
    episode = make_episode(
        task=task,
        detail=CODE,
        labels=json.dumps({f"<label {n}>": CODE for n in range(50)}),
        prompt=make_blob(json.dumps(prompt)),
        tools=make_blob(json.dumps(tools)),
        session_id="&" * 512,
        user_agent="&" * 300,
        model="&" * 200,
    )
    output = json.dumps({"blocks": BLOCKS, "metadata": JSON, "reward": 1.0, "finished": False})
    for index in range(22):
        make_step(
            episode,
            index=index,
            tool="&" * 400,
            error=CODE,
            reward=1.0,
            input=json.dumps({f"<&{n}>": CODE for n in range(2)}),
            output=output,
        )
    for n in range(40):
        component = RewardComponent.objects.create(
            environment_id=episode.environment_id, name=f"{n:02}{'&' * 78}"
        )
        EpisodeComponent.objects.create(
            episode=episode, component=component, **dict.fromkeys(VALUES, n)
        )
    _annotate(episode)
    return episode


def _annotate(episode: Episode) -> None:
    """Add what people wrote, and what the client uploaded."""
    Note.objects.bulk_create(
        Note(episode=episode, step=n, author="&" * 100, text="<\n" * 900) for n in range(300)
    )
    TaskFlag.objects.bulk_create(
        TaskFlag(task=episode.task, author="&" * 100, note="<\n" * 1_000) for _ in range(100)
    )
    for _ in range(50):
        redaction = Redaction.objects.create(author="&" * 100, reason="<" * 300)
        RedactedEpisode.objects.create(redaction=redaction, episode=episode)
    rollout = Rollout.objects.create(
        event_id="talk",
        environment_name="math",
        event=json.dumps({"metadata": {"session_id": episode.session_id}}),
        episode=episode,
        received=NOW,
    )
    RolloutMessage.objects.bulk_create(
        RolloutMessage(
            rollout=rollout,
            index=n,
            event_id=f"{n}",
            kind="assistant_message",
            content=CODE,
            received=NOW,
        )
        for n in range(20)
    )


def test_the_worst_replay_takes_at_most_250_kb_at_first_and_the_rest_is_a_click_away(
    client: Client,
) -> None:
    episode = worst()
    address = f"/episodes/{episode.pk}/"
    page = client.get(address).content.decode()
    assert (
        page.count('class="step"') == 20 and page.count("data-later") > 10 and 'class="tok-' in page
    )
    assert weight(client, address).sent_kb <= MAX_KB
    for more in (
        "more parts of the prompt",
        "more fields",
        "more tools",
        "more notes",
        "more flags",
        "more texts",
    ):
        assert more in page
    assert client.get(f"/play/notes/{episode.pk}/").content.decode().count("note-text") == 300
    assert "data-later" not in client.get(f"{address}steps/?first=20").content.decode()


def test_a_usual_replay_has_all_of_its_steps_at_first(client: Client) -> None:
    episode = make_episode()
    for index in range(20):
        make_step(episode, f"{index} words " * 400, index=index)
    assert "data-later" not in client.get(f"/episodes/{episode.pk}/").content.decode()
