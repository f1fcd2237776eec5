"""Statistics by which query planners choose between indexes. Refreshed by work that has changed
many tasks.

SQLite collects none by itself, and without them it takes all indexes for equally selective: at
1,000,000 tasks, taking the ids of a whole selection then costs up to twice as much. PostgreSQL
collects its own (autovacuum), within minutes. Until then it takes a split with 100,000 new tasks
for a small one, and reads all of it for each batch of an undo.

Only tables that no query of episodes joins have statistics. Of a join, SQLite starts with the table
that it knows to be small: with statistics of 5,000 tasks, the list of the newest episodes goes
through all tasks and sorts all of their episodes (1,000,000: 2.2 s instead of 3 ms).
"""

from __future__ import annotations

from django.db import connection
from django.db.models import Model

from environments.models import SplitEntry, SplitRemoval, TaskRevision, TaskTag

MAX_ANALYZED_ROWS = 1000
"""Number of rows of each index that ANALYZE reads on SQLite, so that it takes 7 CPU ms whatever the
size of the tables. PostgreSQL reads a sample of each table."""
_ANALYZED: dict[str, tuple[type[Model], ...]] = {
    "sqlite": (TaskTag, SplitEntry),
    "postgresql": (TaskTag, SplitEntry, SplitRemoval, TaskRevision),
}


def refresh_statistics() -> None:
    """Update the statistics of tags, of places in splits and, on PostgreSQL, of revisions.

    Other connections to SQLite use them as soon as they are opened again.
    """
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            # not PRAGMA optimize, which before SQLite 3.46 analyses only tables that this
            # connection has queried
            cursor.execute(f"PRAGMA analysis_limit = {MAX_ANALYZED_ROWS}")
        for model in _ANALYZED[connection.vendor]:
            cursor.execute(f"ANALYZE {connection.ops.quote_name(model._meta.db_table)}")
