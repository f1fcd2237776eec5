"""Statistics by which SQLite's query planner chooses an index. Refreshed by whatever has just changed many rows.

PostgreSQL collects its own (autovacuum). SQLite collects none by itself, and without them it takes every index for
equally selective.
"""

from __future__ import annotations

from django.db import connection

MAX_ANALYZED_ROWS = 1000
"""Number of rows of each index that ANALYZE reads, so that its time does not grow with the tables."""


def refresh_statistics() -> None:
    """Bring SQLite's planner statistics up to date; does nothing on PostgreSQL.

    Other connections use them as soon as they are opened again.
    """
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        # not PRAGMA optimize, which before SQLite 3.46 analyses only tables that this connection has queried
        cursor.execute(f"PRAGMA analysis_limit = {MAX_ANALYZED_ROWS}")
        cursor.execute("ANALYZE")
