"""What people reached at a task, for pages that are not the dashboard's, such as the admin's of a task."""

from __future__ import annotations

from django import template

from environments.models import Task
from environments.scoring.definition import definition_of
from episodes.analytics.players import PlayerFigures, at_task

register = template.Library()


@register.simple_tag
def people_at(task: Task) -> PlayerFigures | None:
    """By the environment's own definition; None where no person has finished an attempt."""
    found = at_task(task, definition_of(task.environment))[0]
    return found if found.n else None
