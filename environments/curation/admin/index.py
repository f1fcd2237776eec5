"""The admin's first page: all environments, and which tasks need attention. Called by
django-unfold."""

from __future__ import annotations

from typing import Any

from django.db.models import Prefetch
from django.http import HttpRequest

from environments.access.privacy import viewer_of
from environments.curation.admin.environment import marks_of, summary_of
from environments.curation.admin.environment_counts import attention
from environments.models import Environment, Split


def index(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Return `context` with `environments` (row, summary, marks) and `attention`, if the person may
    see them.

    Otherwise `environments` is None.
    """
    if not request.user.has_perm("environments.view_environment"):
        return {**context, "environments": None}
    viewer = viewer_of(request.user)
    rows = Environment.objects.seen_by(viewer).prefetch_related(
        Prefetch("splits", queryset=Split.objects.existing())
    )
    return {
        **context,
        "environments": [(row, summary_of(row), marks_of(row)) for row in rows],
        "attention": attention(viewer) if request.user.has_perm("environments.view_task") else [],
    }
