"""Template tag for the results of people at a task, used by the admin's page of a task."""

from __future__ import annotations

from typing import Any

from django import template

from environments.access.privacy import viewer_of
from environments.models import Task
from environments.scoring.definition import definition_of
from episodes.figures.players import PlayerFigures, at_task

register = template.Library()


@register.simple_tag(takes_context=True)
def people_at(context: dict[str, Any], task: Task) -> PlayerFigures | None:
    """Return figures of people's attempts by the environment's definition; None if no person
    finished an attempt."""
    people = at_task(task, definition_of(task.environment), viewer_of(context["request"].user))[0]
    return people if people.n else None
