"""Template tag for the revisions of an environment whose episodes figures pool, used by the admin's
list of tasks."""

from __future__ import annotations

from collections.abc import Sequence

from django import template

from environments.models import Environment
from episodes.figures.curves.revision_marks import pooled_in
from episodes.figures.scopes import scope_of
from episodes.models import EnvironmentRevision

register = template.Library()


@register.simple_tag
def pooled_revisions(environment: Environment) -> Sequence[EnvironmentRevision]:
    """Return one revision for each code that played in the environment, latest first; empty if it
    was one alone."""
    return pooled_in([scope_of(environment)])
