"""What to know of lists of tasks before they are published: tasks of training splits in them, and
copies.

Called by the forms of suites and studies, which show it and publish only once somebody has seen it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from itertools import combinations

from environments.curation.leaks import leaks_of_split, leaks_of_tasks, opposite_splits
from environments.database.json_rows import among
from environments.models import Split, Task
from environments.tasks.split_indexes import served
from episodes.suites.versions import NewMember


def leaks_of_list(split: Split, tasks: frozenset[int] | None = None) -> list[str]:
    """Return the sentences about tasks of a split. `tasks`: their ids; None: all that it serves."""
    if tasks is None:
        report = leaks_of_split(split)
    else:
        rows = Task.objects.filter(among("pk", tasks)).order_by("pk")
        others = opposite_splits(split.environment_id, split.type).exclude(pk=split.pk)
        report = leaks_of_tasks(rows, list(others))
    return [f"{split}: {sentence}" for sentence in report.sentences]


def leaks_of_members(members: Sequence[NewMember]) -> list[str]:
    """Return the sentences about the members of a suite, and about tasks that count in two of
    them."""
    splits = {member.split.pk: member.split for member in members}
    whole = {member.split.pk for member in members if member.only is None}
    sentences = [sentence for pk in splits if pk in whole for sentence in leaks_of_list(splits[pk])]
    for member in members:
        if member.split.pk not in whole:
            sentences += leaks_of_list(member.split, member.only)
    for first, second in combinations(splits.values(), 2):
        if first.environment_id == second.environment_id and first.type == second.type:
            rows = served(first).filter(task__in=served(second).values("task"))
            if count := rows.values("task").distinct().count():
                tasks = "1 task is" if count == 1 else f"{count:,} tasks are"
                sentences.append(f"{tasks} both in {first} and in {second}, and so count twice.")
    return sentences


def mark_of(sentences: Collection[str]) -> str:
    """Return what a form sends back to say that these warnings were shown; empty without any."""
    return hashlib.sha256("\n".join(sentences).encode()).hexdigest() if sentences else ""
