"""AddTags and RemoveTags: the actions that change the tags of tasks, and the names of all tags for
a list to offer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db.models import Q

from environments.curation.action import ActionOutcome, ActionRefused, Plan
from environments.curation.history_rows import Revisions
from environments.curation.selection import Selection
from environments.curation.split_counts import count_of, left_out, some_of, tasks
from environments.curation.task_filter import is_tagged
from environments.curation.work import carry_out, recorded
from environments.database.jobs import Progress, silent
from environments.database.json_rows import among, distinct_values
from environments.models import Task, TaskTag, Viewer
from environments.models.viewer import visible_environments

MAX_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class AddTags:
    selection: Selection
    tags: tuple[str, ...]
    """Words of at most 60 characters without commas and control characters."""
    reason: str = ""

    def plan(self) -> Plan:
        tags, lacking = checked_tags(self.tags), Q()
        for tag in tags:
            lacking |= ~is_tagged(tag)
        return _plan(self.selection, f"Tag %s {_listed(tags)}", lacking, "already tagged")

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        tags = checked_tags(self.tags)
        with recorded("tag", author, self.reason, environment=self.selection.environment) as action:
            work = TagWork(lambda names: names | set(tags), action.revisions)
            count = carry_out(action, work, self.selection.all_ids(), (), progress)
            return action.done(f"Tagged {tasks(count)} {_listed(tags)}.", count)


@dataclass(frozen=True, slots=True)
class RemoveTags:
    selection: Selection
    tags: tuple[str, ...]
    reason: str = ""

    def plan(self) -> Plan:
        tags, having = checked_tags(self.tags), Q()
        for tag in tags:
            having |= is_tagged(tag)
        return _plan(
            self.selection,
            "Take " + _listed(tags).replace("%", "%%") + " off %s",
            having,
            "already without them",
        )

    def apply(self, author: str, progress: Progress = silent) -> ActionOutcome:
        tags = checked_tags(self.tags)
        with recorded("tag", author, self.reason, environment=self.selection.environment) as action:
            work = TagWork(lambda names: names - set(tags), action.revisions)
            count = carry_out(action, work, self.selection.all_ids(), (), progress)
            return action.done(f"Took {_listed(tags)} off {tasks(count)}.", count)


class TagWork:
    """Replaces the tags of each task by what `change` makes of them."""

    def __init__(self, change: Callable[[set[str]], set[str]], revisions: Revisions) -> None:
        self._change, self._revisions = change, revisions

    def stage(self, tasks: Sequence[int]) -> int:
        ids = (
            Task.objects.filter(among("pk", tasks))
            .order_by("pk")
            .select_for_update()
            .values_list("pk", flat=True)
        )
        before = {task: set[str]() for task in ids}
        for task, name in TaskTag.objects.filter(among("task_id", tasks)).values_list(
            "task_id", "name"
        ):
            before[task].add(name)
        after = {task: self._change(names) for task, names in before.items()}
        return self._revisions.write(
            (task, {"tags": sorted(before[task])}, {"tags": sorted(names)})
            for task, names in after.items()
            if names != before[task]
        )


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags without spaces around them, each once. Raises: ActionRefused."""
    names = tuple(dict.fromkeys(filter(None, (tag.strip() for tag in tags))))
    if not names:
        raise ActionRefused("No tag is given. Write at least one word.")
    for tag in names:
        if len(tag) > MAX_CHARACTERS:
            raise ActionRefused(
                f"Tag {tag[:MAX_CHARACTERS]!r}… is longer than {MAX_CHARACTERS} characters. "
                "Shorten it."
            )
        if "," in tag or not tag.isprintable():
            raise ActionRefused(
                f"Tag {tag!r} has a comma or a control character. Use letters, digits, spaces and "
                "other signs."
            )
    return names


def _plan(selection: Selection, title: str, changing: Q, same: str) -> Plan:
    total, changes = some_of(selection), count_of(selection.condition() & changing)
    rest = total - changes
    others = [f"{tasks(rest, 'is', 'are')} {same}."] if rest else []
    return Plan(
        title.replace("%s", tasks(changes), 1),
        total,
        changes,
        sentences=(*others, *left_out(selection)),
    )


def _listed(tags: Sequence[str]) -> str:
    return ", ".join(f"“{tag}”" for tag in tags)


MAX_TAGS_OFFERED = 60


def tag_names(viewer: Viewer, limit: int = MAX_TAGS_OFFERED) -> list[str]:
    """Return the first tags in use, in the database's order, without those that only hidden
    environments use."""
    names = distinct_values(TaskTag, "name", limit)
    if not (condition := visible_environments(viewer, "task__environment")):
        return names
    tags = TaskTag.objects.filter(condition)
    return [name for name in names if tags.filter(name=name).exists()]
