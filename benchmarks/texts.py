"""The words of seeded transcripts, made by the database itself: the follower would take an hour for a million.

What it writes is what the follower writes: the tool, the input, the output and the error of each step are one document.
Seeded texts are ASCII, which both databases cut into words as `episodes/search/words.py` does. Used by `dashboard.py`.
"""

from __future__ import annotations

EPISODES_AT_ONCE = 20_000

_SAID = """
    s.tool || ' ' || replace(replace(s.input, '"command"', ''), '"', ' ') || ' ' ||
    replace(replace(replace(substr(s.output, 22), '"detail": null, "type": "text"', ''),
        '"metadata": null, "reward": null, "finished": false', ''), '"', ' ') || ' ' || s.error
"""
_SQLITE = f"""
    INSERT INTO episodes_transcriptwords (rowid, words)
    SELECT t.id, group_concat({_SAID}, ' ') FROM episodes_transcripttext AS t JOIN episodes_step AS s USING (episode_id)
    WHERE t.episode_id > %s AND t.episode_id <= %s GROUP BY t.id
"""
_POSTGRESQL = f"""
    INSERT INTO episodes_transcripttext (episode_id, words)
    SELECT s.episode_id, ('''B' || s.episode_id / {{block}} || '''')::tsvector || to_tsvector('simple', regexp_replace(
        lower(string_agg({_SAID}, ' ' ORDER BY s.index)), '[^a-z0-9]+', ' ', 'g'))
    FROM episodes_step AS s WHERE s.episode_id > %s AND s.episode_id <= %s GROUP BY s.episode_id
"""


def index_all() -> None:
    """Every episode that has steps, in an order of its id; then the follower's own part has nothing to do."""
    from django.db import connection

    from episodes.models import Episode, Progress, TranscriptText
    from episodes.rollups.progress import last_end
    from episodes.rollups.text import TextPart
    from episodes.search.index import BLOCK_EPISODES, empty

    empty()
    last = Episode.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    for first in range(0, last, EPISODES_AT_ONCE):
        span = first, min(last, first + EPISODES_AT_ONCE)
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(_POSTGRESQL.format(block=BLOCK_EPISODES), span)
                continue
            ids = Episode.objects.filter(pk__gt=span[0], pk__lte=span[1]).order_by("pk").values_list("pk", flat=True)
            TranscriptText.objects.bulk_create((TranscriptText(episode_id=pk) for pk in ids), batch_size=2000)
            cursor.execute(_SQLITE, span)
    Progress.objects.update_or_create(name=TextPart.name, defaults={"end_number": last_end()})
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT gin_clean_pending_list('transcripttext_words')")
            cursor.execute("ANALYZE episodes_transcripttext")
