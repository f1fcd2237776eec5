"""What text search needs: a row per document; its words in a full-text table on SQLite, in a column on PostgreSQL."""

from django.db import migrations, models

# Every document has a lexeme for its block of 16,384 episodes (B0, B1, ...; words have no capital letters), with which the
# index itself finds a common word in the newest blocks alone. GIN gives no order, and to read a document for a look at
# its words takes 30 microseconds: so no way but the index, and phrases, which have to be looked at, in some only.
FIND = """
CREATE FUNCTION episodes_transcripts_with(wanted tsquery, phrases tsquery, most integer, looked_at integer, newest bigint)
RETURNS SETOF bigint LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_indexscan = off SET work_mem = '64MB' SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    enough integer := CASE WHEN phrases IS NULL THEN most ELSE looked_at END;
    last_block bigint := newest / 16384;
    blocks bigint := 4;
    query tsquery;
    found bigint[];
BEGIN
    LOOP
        query := wanted;
        IF enough IS NOT NULL AND blocks <= last_block THEN
            query := wanted && (
                SELECT string_agg('B' || block, ' | ') FROM generate_series(last_block - blocks + 1, last_block) AS block
            )::tsquery;
        END IF;
        found := ARRAY(
            SELECT episode_id FROM episodes_transcripttext WHERE words @@ query ORDER BY episode_id DESC LIMIT enough
        );
        EXIT WHEN query = wanted OR cardinality(found) >= enough;
        blocks := blocks * 4;
    END LOOP;
    IF phrases IS NULL THEN
        RETURN QUERY SELECT unnest(found);
    ELSE
        RETURN QUERY SELECT episode_id FROM episodes_transcripttext
            WHERE episode_id = ANY (found) AND words @@ phrases ORDER BY episode_id DESC LIMIT most;
    END IF;
END
$$
"""
ADD = {
    # contentless: the text itself stands in the steps. Words are cut by us and separated by blanks (episodes/terms.py),
    # so they need no rules beyond that. prefix: the shortest beginning that may be asked for
    "sqlite": [
        "CREATE VIRTUAL TABLE episodes_transcriptwords USING fts5(words, content='', tokenize='ascii', prefix='3')"
    ],
    "postgresql": [
        "ALTER TABLE episodes_transcripttext ADD COLUMN words tsvector",
        "CREATE INDEX transcripttext_words ON episodes_transcripttext USING gin (words)",
        FIND,
    ],
}
TAKE_BACK = {
    "sqlite": ["DROP TABLE episodes_transcriptwords"],
    "postgresql": [
        "DROP FUNCTION episodes_transcripts_with",
        "ALTER TABLE episodes_transcripttext DROP COLUMN words",
    ],
}


def add_words(apps, schema_editor):
    for statement in ADD[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


def take_words_back(apps, schema_editor):
    for statement in TAKE_BACK[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):

    dependencies = [
        ('episodes', '0002_facts_for_pages'),
    ]

    operations = [
        migrations.CreateModel(
            name='TranscriptText',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('episode_id', models.BigIntegerField(unique=True)),
            ],
        ),
        migrations.RunPython(add_words, take_words_back),
    ]
