"""The hashes that identify recorded tasks: by their content, and apart from it for those that were
sent as a guess.

Somebody who may not read all tasks of an environment could send guesses of hidden content, and see
in the record which of them is the task of a split. So a task that such a player sends by its
content is marked as sent: it is another task than that of a split with the same content.
"""

from __future__ import annotations

import hashlib
import json

from environments.models.tasks import Task

_encode = json.JSONEncoder(sort_keys=True).encode


def content_hash(text: str) -> str:
    """Return a task's identity: the sha256 of its content with sorted keys."""
    return hashlib.sha256(_encode(json.loads(text)).encode()).hexdigest()


def hash_of_spec(spec_json: str, *, is_sent: bool = False) -> str:
    """Return the `content_hash` of a spec, or the sha256 of a text that is no readable JSON (for
    example, too deep).

    `is_sent`: the task is marked as sent. Its hash is never that of a task without the mark.
    """
    try:
        digest = content_hash(spec_json)
    except (ValueError, RecursionError):
        digest = hashlib.sha256(spec_json.encode()).hexdigest()
    return hashlib.sha256(f"sent:{digest}".encode()).hexdigest() if is_sent else digest


def is_sent_task(task: Task) -> bool:
    """Return whether the task is marked as sent."""
    return task.content_hash == hash_of_spec(task.spec, is_sent=True)
