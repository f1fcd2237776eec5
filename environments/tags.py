"""Tags: the words that people have put on tasks, for a list to choose from. No request, no HTML."""

from __future__ import annotations

from django.db import connection

TAGS_OFFERED = 60

# one look into the index per word: SELECT DISTINCT would read every tag of every task
_NAMES = """
    WITH RECURSIVE words(name) AS (
        SELECT MIN(name) FROM environments_tasktag
        UNION ALL
        SELECT (SELECT MIN(name) FROM environments_tasktag WHERE name > words.name) FROM words WHERE name IS NOT NULL
    )
    SELECT name FROM words WHERE name IS NOT NULL LIMIT %s
"""


def tag_names(limit: int = TAGS_OFFERED) -> list[str]:
    """The first words in use, in the database's order."""
    with connection.cursor() as cursor:
        cursor.execute(_NAMES, [limit])
        return [name for (name,) in cursor.fetchall()]
