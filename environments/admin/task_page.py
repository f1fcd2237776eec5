"""The page of one task: what it says, and where it stands."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from environments.admin.base import ReadOnlyAdmin
from environments.models import Task
from environments.parts import fields


class TaskPage(ReadOnlyAdmin):
    """The part of the tasks' admin that shows one of them; the list is `environments.admin.task`'s."""

    page_template = "environments/task.html"

    def page(self, request: HttpRequest, row: Task) -> dict[str, Any]:
        entries = row.entries.select_related("split__environment").order_by("split", "position")[:20]
        return {"spec": fields(row.spec), "entries": list(entries)}
