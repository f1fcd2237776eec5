"""Functions that create rows for tests with as few fields as possible; a test passes the values
that matter to it."""

from __future__ import annotations

import hashlib
import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from environments.models import Environment, Split, SplitEntry, Task, TaskStatistics
from environments.scoring.task_buckets import Thresholds, bucket_of
from episodes.models import Blob, Episode, Run, Step

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_numbers = itertools.count(1)


def make_environment(name: str = "math", **values: Any) -> Environment:
    return Environment.objects.get_or_create(
        name=name, defaults={"class_path": "tests.envs:Echo", **values}
    )[0]


def make_task(spec: dict[str, Any] | None = None, environment: Environment | None = None) -> Task:
    text = json.dumps({"question": next(_numbers)} if spec is None else spec)
    environment = environment or make_environment()
    return Task.objects.create(
        environment=environment, content_hash=hashlib.sha256(text.encode()).hexdigest(), spec=text
    )


def make_statistics(task: Task, attempts: int, successes: int, failures: int = 0) -> TaskStatistics:
    """Return statistics over all attempts, with returns 0 and 1, as the recorder writes them by
    default thresholds."""
    Task.objects.filter(pk=task.pk).update(is_unseen=False)
    rate = successes / attempts if attempts else 0.0
    return TaskStatistics.objects.create(
        **{
            "task": task,
            "environment": task.environment,
            "by": "all",
            "attempts": attempts,
            "scored": attempts,
        },
        **{"successes": successes, "return_total": float(successes), "rate": rate},
        env_error=failures,
        bucket=bucket_of(attempts, failures, rate, Thresholds()),
    )


def make_split(*tasks: Task, name: str = "train", environment: Environment | None = None) -> Split:
    split = Split.objects.create(
        environment=environment or make_environment(), name=name, type="train", size=len(tasks)
    )
    SplitEntry.objects.bulk_create(
        SplitEntry(split=split, position=n, task=task) for n, task in enumerate(tasks)
    )
    return split


def make_blob(text: str) -> Blob:
    data = text.encode()
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    return Blob.objects.get_or_create(
        digest=digest, defaults={"size_bytes": len(data), "data": data}
    )[0]


def make_run(name: str = "grpo-3") -> Run:
    return Run.objects.get_or_create(name=name, defaults={"created": NOW})[0]


def make_episode(**values: Any) -> Episode:
    """Return a finished episode of a new task, without steps."""
    episode = unsaved_episode(**values)
    episode.save(force_insert=True)
    return episode


def unsaved_episode(**values: Any) -> Episode:
    """Return a finished episode for `bulk_create`, which takes a tenth of the time that saving each
    does."""
    number = next(_numbers)
    task = values.pop("task", None) or make_task(environment=values.get("environment"))
    facts = {
        "session_id": f"session-{number}",
        "status": "ended",
        "cause": "finished",
        "user_agent": "ors-sdk/0.1.0",
    }
    times = {"created": NOW, "ready": NOW, "ended": NOW + timedelta(seconds=4.2)}
    return Episode(**{"environment": task.environment, "task": task, **facts, **times, **values})


def make_step(episode: Episode, text: str = "42 is right", **values: Any) -> Step:
    """Return the next step of the episode: a call of `submit` that returned `text`."""
    index = values.pop("index", episode.steps.count())
    answer = {"blocks": [{"type": "text", "text": text, "detail": None}], "metadata": None}
    output = json.dumps(
        {**answer, "reward": values.get("reward"), "finished": values.get("finished", False)}
    )
    facts = {"tool": "submit", "input": '{"answer": 42}', "output": output, "status": "ok"}
    times = {"started": NOW, "duration_ms": 12.0, "task_id": f"task-{next(_numbers)}"}
    return Step.objects.create(episode=episode, index=index, **{**facts, **times, **values})
