"""Statements that count attempts (see `episodes/attempts/rule.py`) into TaskStatistics.

The recorder counts an attempt in the transaction that ends its episode: once over all attempts, once for its run and
once for its model, if it has them. The statement itself reads the environment's definition of return and success, so
that it is the one in force at that moment. Returns beyond 1e290 count as 1e290, so that no sum of them overflows, which
PostgreSQL would refuse. `recount.py` counts from the beginning when the definition has changed.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from environments import conf
from environments.database.bulk_writer import BulkWriter, Values
from environments.scoring.buckets import Thresholds, bucket_sql
from episodes.attempts.rule import IS_CONTINUATION
from episodes.models import Episode

COLUMNS = (
    *("task_id", "environment_id", "by", "key", "attempts", "scored", "successes"),
    *("return_total", "return_low", "return_high", "rate", "bucket"),
)

# selects each attempt up to three times: over all, for its run, for its model
_ATTEMPTS = """
    SELECT a.task_id, a.environment_id,
        k."by", CASE k."by" WHEN 'all' THEN '' WHEN 'run' THEN a.run ELSE a.model END AS "key",
        CASE WHEN a.value > 1e290 THEN 1e290 WHEN a.value < -1e290 THEN -1e290 ELSE a.value END AS value,
        CASE WHEN a.value > a.threshold THEN 1 ELSE 0 END AS success
    FROM (
        SELECT e.task_id, e.environment_id, e.model, r.name AS run, d.success_threshold AS threshold,
            CASE d.default_return WHEN 'sum' THEN {given}.return_sum WHEN 'last' THEN {given}.return_last
            WHEN 'max' THEN {given}.return_max ELSE {given}.return_mean END AS value
        FROM {source}
        JOIN environments_environment AS d ON d.id = e.environment_id
        LEFT JOIN episodes_run AS r ON r.id = e.run_id
        WHERE {condition}
    ) AS a
    CROSS JOIN (SELECT 'all' AS "by" UNION ALL SELECT 'run' UNION ALL SELECT 'model') AS k
    WHERE k."by" = 'all' OR CASE k."by" WHEN 'run' THEN a.run ELSE a.model END <> ''
"""
_EACH = """
    SELECT task_id, environment_id, "by", "key",
        1, value IS NOT NULL, success, COALESCE(value, 0.0), value, value, success, {bucket}
    FROM ({attempts}) AS t WHERE true
"""
_TOGETHER = """
    SELECT task_id, environment_id, "by", "key", COUNT(*), COUNT(value), SUM(success), COALESCE(SUM(value), 0.0),
        MIN(value), MAX(value), CAST(SUM(success) AS double precision) / COUNT(*), {bucket}
    FROM ({attempts}) AS t GROUP BY task_id, environment_id, "by", "key"
"""
_TOGETHER_RATE = "CAST(SUM(success) AS double precision) / COUNT(*)"
_ADD = """
    INSERT INTO environments_taskstatistics AS s ({columns}) {rows}
    ON CONFLICT (task_id, "by", "key") DO UPDATE SET
        attempts = s.attempts + excluded.attempts,
        scored = s.scored + excluded.scored,
        successes = s.successes + excluded.successes,
        return_total = s.return_total + excluded.return_total,
        return_low = COALESCE({least}(s.return_low, excluded.return_low), s.return_low, excluded.return_low),
        return_high = COALESCE({greatest}(s.return_high, excluded.return_high), s.return_high, excluded.return_high),
        rate = {rate},
        bucket = {bucket}
"""
_RATE = "CAST(s.successes + excluded.successes AS double precision) / (s.attempts + excluded.attempts)"
_COUNTED = """
    EXISTS (SELECT 1 FROM environments_taskstatistics AS s WHERE s.task_id = environments_task.id AND s."by" = 'all')
"""
# usually there is nothing to write: two lookups by key
_SQLITE_SEEN = f"""
    UPDATE environments_task SET is_unseen = 0
    WHERE id = (SELECT task_id FROM episodes_episode WHERE id = ?) AND is_unseen AND {_COUNTED}
"""
# a locked row, whose holder may be waiting for one of ours, is left for the task's next attempt
_POSTGRESQL_SEEN = f"""
    UPDATE environments_task SET is_unseen = false WHERE id IN (
        SELECT environments_task.id FROM environments_task
        JOIN episodes_episode AS e ON e.task_id = environments_task.id
        WHERE e.id = ANY(%s::bigint[]) AND environments_task.is_unseen AND {_COUNTED}
        FOR NO KEY UPDATE OF environments_task SKIP LOCKED
    )
"""
# SQLite runs the statement once per row, which is cheaper there than grouping, and each row sees those before it
_SQLITE_ROW = "(SELECT ? AS id, ? AS return_sum, ? AS return_last, ? AS return_max, ? AS return_mean) AS g"
_POSTGRESQL_ROWS = (
    "unnest(%s::bigint[], %s::double precision[], %s::double precision[], %s::double precision[],"
    " %s::double precision[]) AS g (id, return_sum, return_last, return_max, return_mean)"
)


def count(writer: BulkWriter, ends: Collection[Values]) -> None:
    """Count attempts that are about to end: id, return_sum, return_last, return_max, return_mean (finite or None).

    An episode that is not running or does not exist adds nothing: a batch that is written again was counted already.
    Raises: django.db.Error.
    """
    if ends:
        writer.run(_add_sql(writer.is_sqlite, conf.thresholds()), ends)
        seen = _SQLITE_SEEN if writer.is_sqlite else _POSTGRESQL_SEEN
        writer.run(seen, [(episode,) for episode, *_ in ends])


def recorded_sql(condition: str) -> str:
    """Return a SELECT of COLUMNS, with empty buckets, over recorded attempts that meet `condition`.

    `condition` calls the episode `e`.
    """
    is_attempt = Episode.objects.attempts().condition_sql("e")
    attempts = _ATTEMPTS.format(given="e", source="episodes_episode AS e", condition=f"{is_attempt} AND {condition}")
    return _TOGETHER.format(attempts=attempts, bucket="''")


@cache
def _add_sql(is_sqlite: bool, thresholds: Thresholds) -> str:
    given = _SQLITE_ROW if is_sqlite else _POSTGRESQL_ROWS
    attempts = _ATTEMPTS.format(
        given="g",
        source=f"{given} JOIN episodes_episode AS e ON e.id = g.id",
        condition=Episode.objects.filter(~IS_CONTINUATION, status="running").condition_sql("e"),
    )
    rows, count, rate = (_EACH, "1", "success") if is_sqlite else (_TOGETHER, "COUNT(*)", _TOGETHER_RATE)
    return _ADD.format(
        columns=", ".join(f'"{name}"' for name in COLUMNS),
        rows=rows.format(attempts=attempts, bucket=bucket_sql(count, rate, thresholds)),
        rate=_RATE,
        bucket=bucket_sql("s.attempts + excluded.attempts", _RATE, thresholds),
        least="MIN" if is_sqlite else "LEAST",
        greatest="MAX" if is_sqlite else "GREATEST",
    )
