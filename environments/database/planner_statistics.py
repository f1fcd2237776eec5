"""Statistics by which SQLite's query planner chooses between indexes. Refreshed by work that has changed many rows.

PostgreSQL collects its own (autovacuum). SQLite collects none by itself, and without them it takes all indexes for
equally selective: at 1,000,000 tasks, taking the ids of a whole selection then costs up to twice as much.
"""

from __future__ import annotations

from django.db import connection
from django.db.models import Model

MAX_ANALYZED_ROWS = 1000
"""Number of rows of each index that ANALYZE reads, so that it takes 7 CPU ms whatever the size of the tables."""


def refresh_statistics(*models: type[Model]) -> None:
    """Update SQLite's statistics of the models' tables, without any of all tables; does nothing on PostgreSQL.

    Other connections use them as soon as they are opened again.
    """
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        # not PRAGMA optimize, which before SQLite 3.46 analyses only tables that this connection has queried
        cursor.execute(f"PRAGMA analysis_limit = {MAX_ANALYZED_ROWS}")
        for table in [connection.ops.quote_name(model._meta.db_table) for model in models] or [""]:
            cursor.execute(f"ANALYZE {table}")
