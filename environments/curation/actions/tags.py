"""AddTags and RemoveTags: actions that change the tags of tasks; and the names of all tags for a list
to offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from django import forms
from django.db.models import Q

from environments.curation.action import ActionOutcome, ActionRefused, Plan
from environments.curation.history_rows import Revisions
from environments.curation.split_counts import count_of, left_out, some_of, tasks
from environments.curation.task_action import ReasonForm, TaskAction
from environments.curation.task_filter import is_tagged
from environments.curation.work import RecordedAction
from environments.database.json_rows import among, distinct_values
from environments.models import Task, TaskTag, Viewer
from environments.models.viewer import visible_environments
from environments.tasks.split_change import SplitChange

MAX_CHARACTERS = 60


class TagsForm(ReasonForm):
    tags = forms.CharField(
        max_length=1000,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off"}),
        help_text="One or more tags, separated by commas.",
    )
    field_order = ("tags", "reason")

    def clean_tags(self) -> tuple[str, ...]:
        return tuple(self.cleaned_data["tags"].split(","))


@dataclass(frozen=True)
class _TagChange(TaskAction):
    kind = "tag"
    form = TagsForm
    adds: ClassVar[bool]
    words: ClassVar[tuple[str, str, str]]
    """Title, outcome, and what the other tasks are."""

    tags: Sequence[str]
    """Words of at most 60 characters without commas and control characters."""
    reason: str = ""

    def plan(self) -> Plan:
        changing = Q()
        for tag in checked_tags(self.tags):
            changing |= ~is_tagged(tag) if self.adds else is_tagged(tag)
        total = some_of(self.selection)
        count = count_of(self.selection.condition() & changing)
        same = [f"{tasks(total - count, 'is', 'are')} {self.words[2]}."] if count < total else []
        sentences = (*same, *left_out(self.selection))
        return Plan(self._about(self.words[0], count), total, count, sentences=sentences)

    def ids(self) -> Sequence[int]:
        checked_tags(self.tags)
        return super().ids()

    def stage(
        self, tasks: Sequence[int], changes: Sequence[SplitChange], revisions: Revisions
    ) -> int:
        own = set(checked_tags(self.tags))
        rows = Task.objects.filter(among("pk", tasks)).order_by("pk").select_for_update()
        before = {task: set[str]() for task in rows.values_list("pk", flat=True)}
        names = TaskTag.objects.filter(among("task_id", tasks))
        for task, name in names.values_list("task_id", "name"):
            before[task].add(name)
        after = {task: now | own if self.adds else now - own for task, now in before.items()}
        return revisions.write(
            (task, {"tags": sorted(before[task])}, {"tags": sorted(after[task])})
            for task in before
            if before[task] != after[task]
        )

    def outcome(
        self, action: RecordedAction, count: int, changes: Sequence[SplitChange]
    ) -> ActionOutcome:
        return action.done(self._about(self.words[1], count), count)

    def _about(self, words: str, count: int) -> str:
        tags = ", ".join(f"“{tag}”" for tag in checked_tags(self.tags))
        return words.format(tasks=tasks(count), tags=tags)


@dataclass(frozen=True)
class AddTags(_TagChange):
    name, label, order = "tag", "Add tags", 3
    adds = True
    words = ("Tag {tasks} {tags}", "Tagged {tasks} {tags}.", "already tagged")


@dataclass(frozen=True)
class RemoveTags(_TagChange):
    name, label, order = "untag", "Remove tags", 4
    adds = False
    words = ("Take {tags} off {tasks}", "Took {tags} off {tasks}.", "already without them")


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


MAX_TAGS_OFFERED = 60


def tag_names(viewer: Viewer, limit: int = MAX_TAGS_OFFERED) -> list[str]:
    """Return the first tags in use, in the database's order, without those that only hidden
    environments use."""
    names = distinct_values(TaskTag, "name", limit)
    if not (condition := visible_environments(viewer, "task__environment")):
        return names
    tags = TaskTag.objects.filter(condition)
    return [name for name in names if tags.filter(name=name).exists()]
