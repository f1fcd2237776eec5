"""A private environment in the database, of which every text is a word that people who are no
members must never read.

All of its rows have the number NUMBER, so that an address of any of them names what does not exist
for others.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from environments.models import (
    Environment,
    Split,
    SplitEntry,
    Task,
    TaskFlag,
    TaskRevision,
    TaskTag,
)
from environments.scoring.definition import definition_of
from episodes.models import (
    EnvironmentRevision,
    Guest,
    Invite,
    Note,
    Play,
    Retention,
    Rollout,
    Run,
    RunTag,
    SavedView,
    ScalarSeries,
    Study,
    Suite,
)
from episodes.rollups.follower import catch_up
from episodes.suites.versions import NewMember, publish
from tests.episodes.ended import count_statistics, end_episode
from tests.stored import NOW, make_blob, make_step

NUMBER = 4444444
WORDS = (
    frozenset(
        f"canary{what}"
        for what in (
            "env",
            "card",
            "split",
            "spec",
            "prompt",
            "tool",
            "output",
            "note",
            "tag",
            "flag",
            "reason",
            "person",
        )
    )
    | frozenset(
        f"canary{what}"
        for what in ("run", "model", "runtag", "runnote", "rollout", "message", "view", "invite")
    )
    | {"canarysuite", "canarywords", "canarystudy"}
)
"""Every word of it that pages show to members."""


def make_private(**values: Any) -> Environment:
    """Return the private environment, with an episode, a running one, and a row of everything that
    pages show of it."""
    environment = Environment.objects.create(
        pk=NUMBER,
        name="canaryenv",
        class_path="a:B",
        card="canarycard",
        is_private=True,
        position=9,
        **values,
    )
    task = Task.objects.create(
        pk=NUMBER, environment=environment, content_hash="c" * 64, spec='{"q": "canaryspec"}'
    )
    split = Split.objects.create(
        pk=NUMBER, environment=environment, name="canarysplit", type="train", size=1
    )
    SplitEntry.objects.create(split=split, position=0, task=task)
    TaskTag.objects.create(task=task, name="canarytag")
    TaskFlag.objects.create(task=task, author="ada", note="canaryflag")
    TaskRevision.objects.create(
        pk=NUMBER, task=task, kind="edit", change="1", author="ada", reason="canaryreason", before="{}", after="{}",
        created=NOW,
    )  # fmt: skip
    EnvironmentRevision.objects.create(
        environment=environment,
        code="canarycode" + "0" * 22,
        digest="d",
        versions="{}",
        first_episode=1,
        created=NOW,
    )
    _record(environment, task, split)
    SavedView.objects.create(
        pk=NUMBER, name="canaryview", query="environment=canaryenv", author="ada"
    )
    suite = Suite.objects.create(
        pk=NUMBER, name="canarysuite", description="canarywords", author="ada"
    )
    version = publish(suite, "success", [NewMember(split, definition_of(environment))], "ada")
    Study.objects.create(
        name="canarystudy", environment=environment, member=version.members.get(), author="ada"
    )
    Invite.objects.create(
        pk=NUMBER, token_hash="t" * 64, name="canaryinvite", environment=environment, author="ada",
        expires=timezone.now() + timedelta(days=1),
    )  # fmt: skip
    Retention.objects.create(pk=NUMBER, environment=environment, days=9)
    return environment


def _record(environment: Environment, task: Task, split: Split) -> None:
    run = Run.objects.create(pk=NUMBER, name="canaryrun", notes="canaryrunnote", created=NOW)
    RunTag.objects.create(run=run, name="canaryruntag")
    ScalarSeries.objects.create(run=run, name="canaryscalar", points=1, last=1.0)
    texts = [
        json.dumps([{"type": "text", "text": "canaryprompt"}]),
        json.dumps([{"name": "canarytool"}]),
    ]
    prompt, tools = map(make_blob, texts)
    facts = {
        "environment": environment,
        "task": task,
        "split": split,
        "task_index": 0,
        "model": "canarymodel",
    }
    played = end_episode(
        pk=NUMBER,
        run=run,
        run_step=1,
        player="human",
        key_label="@canaryperson",
        prompt=prompt,
        tools=tools,
        **facts,
    )
    make_step(played, "canaryoutput", tool="canarytool", reward=1.0)
    end_episode(0.5, pk=NUMBER - 1, run=run, run_step=1, **facts)
    end_episode(pk=NUMBER - 2, status="running", cause="", ended=None, end_number=None, **facts)
    Play.objects.create(episode=played, user=User.objects.filter(username="ada").first())
    Note.objects.create(episode=played, author="ada", text="canarynote")
    rollout = Rollout.objects.create(
        pk=NUMBER, event_id="canaryrollout", is_announced=True, environment="canaryenv", environment_name="canaryenv",
        hosted_environment=environment, run=run, model="canarymodel", received=NOW,
    )  # fmt: skip
    rollout.messages.create(
        index=0,
        event_id="0",
        kind="assistant_message",
        content="canarymessage",
        received=NOW,
        response_characters=9,
    )
    count_statistics()
    catch_up()


def invite_guest() -> Guest:
    """Return a guest of the environment's invite."""
    return Guest.objects.create(invite_id=NUMBER, name="Guest")
