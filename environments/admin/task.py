"""Admin of tasks: their list. The page of one is `task_page`'s."""

from __future__ import annotations

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from environments.admin.base import SUMMARY_CHARACTERS, EnvironmentFilter
from environments.admin.task_page import TaskPage
from environments.models import Task


@admin.register(Task)
class TaskAdmin(TaskPage):
    list_display = ("name", "environment", "summary")
    list_filter = (EnvironmentFilter,)
    list_select_related = ("environment",)
    ordering = ("-pk",)
    empty = "Tasks appear here when a hosted class lists them, or when an agent plays one."

    @admin.display(description="task")
    def name(self, task: Task) -> str:
        return task.content_hash[:8]

    @admin.display(description="content")
    def summary(self, task: Task) -> SafeString:
        return format_html('<code class="summary">{}</code>', Truncator(task.spec).chars(SUMMARY_CHARACTERS))
