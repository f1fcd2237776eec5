"""Statements that count rollouts (see `episodes/attempts/rule.py`) of agents and scripted players
into TaskStatistics.

People's are left out, because statistics and buckets choose the tasks for agents.

The recorder counts a rollout in the transaction that ends its episode: once over all, once for its
run and once for its model, if it has them. The statement itself reads the environment's definition
of return and success and its convention, so that they are those in force at that moment. Returns
beyond 1e290 count as 1e290, so that no sum of them overflows, which PostgreSQL would refuse.
`recount.py` counts from the beginning when the definition has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import Q

from environments import conf
from environments.database.bulk_writer import BulkWriter, Values
from environments.scoring.convention import ENVIRONMENT_FAILURES, NUMBERLESS
from environments.scoring.returns import rounded_sql
from environments.scoring.task_buckets import Thresholds, bucket_sql
from environments.wire import NO_NUMBER
from episodes.models import Episode

KIND_COLUMNS = ("no_call", "expired", "interrupted", "env_error")
"""Columns of rollouts by kind, in the order of `Environment.convention`; `env_error` includes
failed setups."""
COLUMNS = (
    *("task_id", "environment_id", "by", "key", "attempts", "scored", "successes"),
    *("return_total", "return_low", "return_high", *KIND_COLUMNS, NUMBERLESS, "rate", "bucket"),
)

_NOT_BY_PEOPLE = ~Q(player="human")
_KINDS_OF_PARTS = (("no_call",), ("expired",), ("interrupted",), ENVIRONMENT_FAILURES)
"""Kinds of endings that each part of `Environment.convention` is about."""
_PARTS = " ".join(
    f"WHEN '{kind}' THEN SUBSTR(d.convention, {place}, 1)"
    for place, kinds in enumerate(_KINDS_OF_PARTS, 1)
    for kind in kinds
)
_TREATMENT = f"CASE {{kind}} {_PARTS} ELSE 'k' END"
# selects each rollout up to three times: over all, for its run, for its model
_ROLLOUTS = f"""
    SELECT a.task_id, a.environment_id, a.kind, CASE WHEN a.treatment = 'o' THEN 0 ELSE 1 END AS counts,
        k."by", CASE k."by" WHEN 'all' THEN '' WHEN 'run' THEN a.run ELSE a.model END AS "key",
        CASE WHEN a.treatment = 'z' THEN 0.0 WHEN a.treatment = 'o' THEN NULL
            WHEN a.value > 1e290 THEN 1e290 WHEN a.value < -1e290 THEN -1e290 ELSE a.value END AS value,
        CASE WHEN a.treatment = 'z' THEN CASE WHEN 0.0 > a.threshold THEN 1 ELSE 0 END
            WHEN a.treatment = 'k' AND a.value > a.threshold AND {{value}} > a.threshold THEN 1 ELSE 0 END AS success,
        CASE WHEN a.treatment = 'k' AND a.is_numberless THEN 1 ELSE 0 END AS numberless
    FROM (
        SELECT e.task_id, e.environment_id, e.model, r.name AS run, {{threshold}} AS threshold,
            {{kind}} AS kind, {_TREATMENT} AS treatment, {{is_numberless}} AS is_numberless,
            CASE d.default_return WHEN 'sum' THEN {{given}}.return_sum WHEN 'last' THEN {{given}}.return_last
            WHEN 'max' THEN {{given}}.return_max ELSE {{given}}.return_mean END AS value
        FROM {{source}}
        JOIN environments_environment AS d ON d.id = e.environment_id
        LEFT JOIN episodes_run AS r ON r.id = e.run_id
        WHERE {{condition}}
    ) AS a
    CROSS JOIN (SELECT 'all' AS "by" UNION ALL SELECT 'run' UNION ALL SELECT 'model') AS k
    WHERE k."by" = 'all' OR CASE k."by" WHEN 'run' THEN a.run ELSE a.model END <> ''
"""  # nosec B608 # only our own names
_IS_KIND = [" OR ".join(f"kind = '{kind}'" for kind in kinds) for kinds in _KINDS_OF_PARTS]
_FAILURE = f"CASE WHEN {_IS_KIND[-1]} THEN 1 ELSE 0 END"
_KINDS = ", ".join(f"CASE WHEN {is_kind} THEN 1 ELSE 0 END" for is_kind in _IS_KIND)
_EACH = f"""
    SELECT task_id, environment_id, "by", "key",
        counts, value IS NOT NULL, success, COALESCE(value, 0.0), value, value, {_KINDS}, numberless,
        success, {{bucket}}
    FROM ({{rollouts}}) AS t WHERE true
"""  # nosec B608 # only our own names
_KIND_SUMS = ", ".join(f"SUM(CASE WHEN {is_kind} THEN 1 ELSE 0 END)" for is_kind in _IS_KIND)
_TOGETHER_RATE = "COALESCE(CAST(SUM(success) AS double precision) / NULLIF(SUM(counts), 0), 0.0)"
_TOGETHER = f"""
    SELECT task_id, environment_id, "by", "key", SUM(counts), COUNT(value), SUM(success), COALESCE(SUM(value), 0.0),
        MIN(value), MAX(value), {_KIND_SUMS}, SUM(numberless), {_TOGETHER_RATE}, {{bucket}}
    FROM ({{rollouts}}) AS t GROUP BY task_id, environment_id, "by", "key"
"""  # nosec B608 # only our own names
_ADD = f"""
    INSERT INTO environments_taskstatistics AS s ({{columns}}) {{rows}}
    ON CONFLICT (task_id, "by", "key") DO UPDATE SET
        attempts = s.attempts + excluded.attempts,
        scored = s.scored + excluded.scored,
        successes = s.successes + excluded.successes,
        return_total = s.return_total + excluded.return_total,
        return_low = COALESCE({{least}}(s.return_low, excluded.return_low), s.return_low, excluded.return_low),
        return_high = COALESCE({{greatest}}(s.return_high, excluded.return_high), s.return_high, excluded.return_high),
        {", ".join(f"{name} = s.{name} + excluded.{name}" for name in (*KIND_COLUMNS, NUMBERLESS))},
        rate = {{rate}},
        bucket = {{bucket}}
"""  # nosec B608 # only our own names
_RATE = (
    "COALESCE(CAST(s.successes + excluded.successes AS double precision)"
    " / NULLIF(s.attempts + excluded.attempts, 0), 0.0)"
)
_COUNTED = """
    EXISTS (SELECT 1 FROM environments_taskstatistics AS s
        WHERE s.task_id = environments_task.id AND s."by" = 'all'
            AND (s.attempts > 0 OR s.env_error > 0))
"""
# usually there is nothing to write: two lookups by key
_SQLITE_SEEN = f"""
    UPDATE environments_task SET is_unseen = 0
    WHERE id = (SELECT task_id FROM episodes_episode WHERE id = ?) AND is_unseen AND {_COUNTED}
"""  # nosec B608 # only our own names
# a locked row, whose holder may be waiting for one of ours, is left for the task's next attempt
_POSTGRESQL_SEEN = f"""
    UPDATE environments_task SET is_unseen = false WHERE id IN (
        SELECT environments_task.id FROM environments_task
        JOIN episodes_episode AS e ON e.task_id = environments_task.id
        WHERE e.id = ANY(%s::bigint[]) AND environments_task.is_unseen AND {_COUNTED}
        FOR NO KEY UPDATE OF environments_task SKIP LOCKED
    )
"""  # nosec B608 # only our own names
# SQLite runs the statement once per row, which is cheaper there than grouping, and each row sees
# those before it
_SQLITE_ROW = (
    "(SELECT ? AS id, ? AS kind, ? AS return_sum, ? AS return_last, ? AS return_max, ? AS "
    "return_mean, ? AS is_numberless) AS g"
)
_POSTGRESQL_ROWS = (
    "unnest(%s::bigint[], %s::text[], %s::double precision[], %s::double precision[], %s::double "
    "precision[],"
    " %s::double precision[], %s::boolean[])"
    " AS g (id, kind, return_sum, return_last, return_max, return_mean, is_numberless)"
)


def count(writer: BulkWriter, ends: Collection[Values]) -> None:
    """Count rollouts that are about to end: id, cause, the four returns (finite or None): sum,
    last, max, mean; and whether a reward was not a number.

    An episode that is not running or does not exist adds nothing: a batch that is written again was
    counted already. Raises: django.db.Error.
    """
    if ends:
        writer.run(_add_sql(writer.is_sqlite, conf.thresholds()), ends)
        mark_seen = _SQLITE_SEEN if writer.is_sqlite else _POSTGRESQL_SEEN
        writer.run(mark_seen, [(episode,) for episode, *_ in ends])


def count_ended(condition: str, values: Sequence[Any]) -> None:
    """Count recorded rollouts that meet `condition` (SQL that calls the episode `e`) and were not
    counted before."""
    rows = recorded_sql(condition, has_buckets=True)
    with connection.cursor() as cursor:
        cursor.execute(
            _adding(rows, conf.thresholds(), is_sqlite=connection.vendor == "sqlite"), values
        )


def recorded_sql(condition: str, *, has_buckets: bool = False) -> str:
    """Return a SELECT of COLUMNS, with empty buckets or by the thresholds in force, over recorded
    rollouts that meet `condition`.

    `condition` calls the episode `e`.
    """
    is_sqlite = connection.vendor == "sqlite"
    is_rollout = Episode.objects.rollouts().filter(_NOT_BY_PEOPLE).condition_sql("e")
    rollouts = _rollouts(
        *("e.cause", "e", "episodes_episode AS e", f"{is_rollout} AND {condition}"),
        f"{'INSTR' if is_sqlite else 'STRPOS'}(e.detail, '{NO_NUMBER}') > 0",
        is_sqlite=is_sqlite,
    )
    bucket = "''"
    if has_buckets:
        bucket = _bucket_together(conf.thresholds())
    return _TOGETHER.format(rollouts=rollouts, bucket=bucket)


@cache
def _add_sql(is_sqlite: bool, thresholds: Thresholds) -> str:
    row_source = _SQLITE_ROW if is_sqlite else _POSTGRESQL_ROWS
    running = Episode.objects.filter(_NOT_BY_PEOPLE, status="running").condition_sql("e")
    source = f"{row_source} JOIN episodes_episode AS e ON e.id = g.id"
    rollouts = _rollouts("g.kind", "g", source, running, "g.is_numberless", is_sqlite=is_sqlite)
    if is_sqlite:
        bucket = bucket_sql("counts", _FAILURE, "success", thresholds)
        rows = _EACH.format(rollouts=rollouts, bucket=bucket)
    else:
        rows = _TOGETHER.format(rollouts=rollouts, bucket=_bucket_together(thresholds))
    return _adding(rows, thresholds, is_sqlite=is_sqlite)


def _bucket_together(thresholds: Thresholds) -> str:
    return bucket_sql("SUM(counts)", f"SUM({_FAILURE})", _TOGETHER_RATE, thresholds)


def _rollouts(
    kind: str, rows: str, source: str, condition: str, is_numberless: str, *, is_sqlite: bool
) -> str:
    """Return _ROLLOUTS, in which returns and thresholds are rounded to decide about success."""
    threshold, value = (
        rounded_sql(column, is_sqlite=is_sqlite) for column in ("d.success_threshold", "a.value")
    )
    return _ROLLOUTS.format(
        kind=kind,
        given=rows,
        source=source,
        condition=condition,
        is_numberless=is_numberless,
        threshold=threshold,
        value=value,
    )


def _adding(rows: str, thresholds: Thresholds, *, is_sqlite: bool) -> str:
    """Return the statement that adds `rows`, a SELECT of COLUMNS, to the rows that exist."""
    return _ADD.format(
        columns=", ".join(f'"{name}"' for name in COLUMNS),
        rows=rows,
        rate=_RATE,
        bucket=bucket_sql(
            *("s.attempts + excluded.attempts", "s.env_error + excluded.env_error", _RATE),
            thresholds,
        ),
        least="MIN" if is_sqlite else "LEAST",
        greatest="MAX" if is_sqlite else "GREATEST",
    )
