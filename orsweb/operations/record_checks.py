"""Checks of the record: steps without gaps, blobs as their hashes say, and episodes that say what
their steps say."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import connection

from environments.runtime.secrets_mask import STARS
from episodes.models import Blob, Redaction
from episodes.recording.blob_rows import is_key
from orsweb.operations.installation_checks import DoctorCheck, DoctorProblem, listing, rows

_GAPS = """
    SELECT s.episode_id FROM episodes_step AS s GROUP BY s.episode_id
    HAVING COUNT(*) <> MAX(s."index") + 1 OR MIN(s."index") <> 0
"""
_COUNTS = """
    SELECT e.id FROM episodes_episode AS e
    LEFT JOIN (
        SELECT episode_id, COUNT(*) AS n, SUM(CASE WHEN status = 'refused' THEN 1 ELSE 0 END) AS refused
        FROM episodes_step GROUP BY episode_id
    ) AS s ON s.episode_id = e.id
    WHERE e.status = 'ended'
        AND (e.steps_count + e.refused_count <> COALESCE(s.n, 0) OR e.refused_count <> COALESCE(s.refused, 0))
"""
# rewards of refused steps are null. Episodes without a tool call have a return of 0 and no reward
_RETURNS = """
    SELECT e.id FROM episodes_episode AS e
    LEFT JOIN (
        SELECT episode_id, SUM(reward) AS total, MAX(reward) AS most, AVG(reward) AS mean FROM episodes_step
        WHERE ABS(reward) < 1e300 GROUP BY episode_id
    ) AS s ON s.episode_id = e.id
    WHERE e.status = 'ended' AND e.cause <> 'no_call' AND ABS(e.return_sum) < 1e300 AND (
        ABS(e.return_sum - COALESCE(s.total, 0)) > 1e-6 * (1 + ABS(e.return_sum))
        OR ABS(COALESCE(e.return_max, 0) - COALESCE(s.most, 0)) > 1e-6 * (1 + ABS(COALESCE(e.return_max, 0)))
        OR ABS(COALESCE(e.return_mean, 0) - COALESCE(s.mean, 0)) > 1e-6 * (1 + ABS(COALESCE(e.return_mean, 0)))
        OR ABS(COALESCE(e.return_last, 0) - COALESCE((
            SELECT reward FROM episodes_step AS l WHERE l.episode_id = e.id AND ABS(l.reward) < 1e300
            ORDER BY l."index" DESC LIMIT 1
        ), 0)) > 1e-6 * (1 + ABS(COALESCE(e.return_last, 0)))
    )
"""
_BLOB_COLUMNS = (
    ("episodes_step", "input_blob_id", "episode_id"),
    ("episodes_step", "output_blob_id", "episode_id"),
    ("episodes_episode", "prompt_id", "id"),
    ("episodes_episode", "tools_id", "id"),
    ("episodes_rollout", "event_blob_id", "id"),
    ("episodes_rolloutmessage", "content_blob_id", "rollout_id"),
    ("episodes_rolloutmessage", "summary_blob_id", "rollout_id"),
    ("episodes_rolloutmessage", "extra_blob_id", "rollout_id"),
)
_MISSING = """
    SELECT DISTINCT t.{owner} FROM {table} AS t LEFT JOIN episodes_blob AS b ON b.digest = t.{column}
    WHERE t.{column} IS NOT NULL AND b.digest IS NULL
"""
_OWNERLESS = """
    SELECT r.id FROM episodes_rollout AS r LEFT JOIN episodes_episode AS e ON e.id = r.episode_id
    WHERE r.episode_id IS NOT NULL AND e.id IS NULL
"""
RESTORE = "The figures cannot be rebuilt from the record; restore a backup if the episodes matter."


def _episodes(sql: str, words: str, remedy: str) -> Iterator[DoctorProblem]:
    if ids := [pk for (pk,) in rows(sql)]:
        yield DoctorProblem(f"{len(ids):,} {words}: {listing(ids)}.", remedy)


def check_blobs_exist() -> Iterator[DoctorProblem]:
    for table, column, owner in _BLOB_COLUMNS:
        sql = _MISSING.format(table=table, column=column, owner=owner)
        yield from _episodes(sql, f"rows of {table} refer to a missing blob ({column})", RESTORE)


def check_blob_hashes() -> Iterator[DoctorProblem]:
    """Compare blobs with their hashes. A redaction keeps the hash of a text that it has replaced by
    stars."""
    wrong, is_redacted = list[str](), Redaction.objects.exists()
    for blob in Blob.objects.order_by("pk").iterator(chunk_size=100):
        try:
            text = blob.text
            is_right = is_key(blob.digest, text.encode(), bytes(blob.data)) or (
                is_redacted and STARS in text
            )
        except Exception:  # whatever a damaged blob causes
            is_right = False
        if not is_right:
            wrong.append(blob.digest)
    if wrong:
        sentence = f"{len(wrong):,} blobs do not match their hashes: {listing(wrong)}."
        yield DoctorProblem(sentence, "The disk or its memory is faulty. " + RESTORE)


def check_constraints() -> Iterator[DoctorProblem]:
    if connection.vendor == "sqlite" and (orphans := rows("PRAGMA foreign_key_check")):
        tables = sorted({str(row[0]) for row in orphans})
        yield DoctorProblem(
            f"{len(orphans):,} rows refer to deleted rows, in {listing(tables)}.",
            RESTORE,
        )


RECORD_CHECKS = (
    DoctorCheck("References lead to existing rows", check_constraints),
    DoctorCheck(
        "No step of an episode is missing",
        lambda: _episodes(_GAPS, "episodes have missing steps", RESTORE),
    ),
    DoctorCheck(
        "Step counts of episodes are right",
        lambda: _episodes(_COUNTS, "episodes have a wrong step count", RESTORE),
    ),
    DoctorCheck(
        "Returns match the steps",
        lambda: _episodes(
            _RETURNS, "episodes have a return that does not match their steps", RESTORE
        ),
    ),
    DoctorCheck("No blob is missing", check_blobs_exist),
    DoctorCheck("Blobs match their hashes", check_blob_hashes),
    DoctorCheck(
        "Uploaded conversations belong to existing episodes",
        lambda: _episodes(
            _OWNERLESS,
            "uploaded conversations belong to deleted episodes",
            "Run rebuild_statistics, which finds their episodes again.",
        ),
    ),
)
