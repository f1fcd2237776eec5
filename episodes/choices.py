"""Choices: names that a filter can be set to, as a form offers them. Read by steps along an index, never by a count."""

from __future__ import annotations

from django.db import connection

from episodes.models import Run

MOST = 500

# each name by one look into the index, for a million episodes have a dozen of them
_MODELS = """
    WITH RECURSIVE named(model) AS (
        SELECT MIN(model) FROM episodes_episode WHERE NOT (model = '')
        UNION ALL
        SELECT (SELECT MIN(e.model) FROM episodes_episode AS e
                WHERE NOT (e.model = '') AND e.model > named.model)
        FROM named WHERE named.model IS NOT NULL
    )
    SELECT model FROM named WHERE model IS NOT NULL LIMIT %s
"""


def models() -> list[str]:
    """Every model that an episode was played by, in alphabetical order, up to MOST."""
    with connection.cursor() as cursor:
        cursor.execute(_MODELS, [MOST])
        return [name for (name,) in cursor.fetchall()]


def runs() -> list[str]:
    """The latest runs, up to MOST, newest first."""
    return list(Run.objects.order_by("-pk").values_list("name", flat=True)[:MOST])
