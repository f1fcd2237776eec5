"""Statistics by which SQLite's query planner chooses between indexes. Refreshed by work that has changed many tasks.

PostgreSQL collects its own (autovacuum). SQLite collects none by itself, and without them it takes all indexes for
equally selective: at 1,000,000 tasks, taking the ids of a whole selection then costs up to twice as much.

Only tables that no query of episodes joins have statistics. Of a join, SQLite starts with the table that it knows to be
small: with statistics of 5,000 tasks, the list of the newest episodes goes through all tasks and sorts all of their
episodes (1,000,000: 2.2 s instead of 3 ms).
"""

from __future__ import annotations

from django.db import connection

from environments.models import SplitEntry, TaskTag

MAX_ANALYZED_ROWS = 1000
"""Number of rows of each index that ANALYZE reads, so that it takes 7 CPU ms whatever the size of the tables."""
_ANALYZED = (TaskTag, SplitEntry)


def refresh_statistics() -> None:
    """Update SQLite's statistics of tags and of places in splits; does nothing on PostgreSQL.

    Other connections use them as soon as they are opened again.
    """
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        # not PRAGMA optimize, which before SQLite 3.46 analyses only tables that this connection has queried
        cursor.execute(f"PRAGMA analysis_limit = {MAX_ANALYZED_ROWS}")
        for model in _ANALYZED:
            cursor.execute(f"ANALYZE {connection.ops.quote_name(model._meta.db_table)}")
