"""Divides searchable documents into parts, and makes the follower index all of them again, as they are read.

Search finds what the follower has indexed again. PostgreSQL also finds the other old documents until they are replaced;
SQLite cannot take their words out of its index one by one, so they are all deleted here.
"""

from django.db import migrations, models

# the function of migration 0003, for several rows of an episode
FIND = """
CREATE OR REPLACE FUNCTION
episodes_transcripts_with(wanted tsquery, phrases tsquery, most integer, looked_at integer, newest bigint)
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
            SELECT DISTINCT episode_id FROM episodes_transcripttext WHERE words @@ query
            ORDER BY episode_id DESC LIMIT enough
        );
        EXIT WHEN query = wanted OR cardinality(found) >= enough;
        blocks := blocks * 4;
    END LOOP;
    IF phrases IS NULL THEN
        RETURN QUERY SELECT unnest(found);
    ELSE
        RETURN QUERY SELECT DISTINCT episode_id FROM episodes_transcripttext
            WHERE episode_id = ANY (found) AND words @@ phrases ORDER BY episode_id DESC LIMIT most;
    END IF;
END
$$
"""
WORDS = {"transcripttext": "episodes_transcriptwords", "rollouttext": "episodes_rolloutwords"}


def index_again(apps, schema_editor):
    """Make the follower start over with what it indexes."""
    if schema_editor.connection.vendor == "sqlite":
        empty(apps, schema_editor)
    else:
        schema_editor.execute(FIND, params=None)
    alias = schema_editor.connection.alias
    apps.get_model("episodes", "Progress").objects.using(alias).filter(name="text").update(end_number=0)
    apps.get_model("episodes", "Rollout").objects.using(alias).filter(is_summarised=True).update(is_summarised=False)


def empty(apps, schema_editor):
    """Delete all documents."""
    for model, words in WORDS.items():
        apps.get_model("episodes", model).objects.using(schema_editor.connection.alias).all().delete()
        if schema_editor.connection.vendor == "sqlite":
            schema_editor.execute(f"INSERT INTO {words} ({words}) VALUES ('delete-all')", params=None)  # nosec B608 # only our own names


def added(model):
    """Return the operations that add the columns."""
    is_cut = models.BooleanField(
        db_default=False, default=False, help_text="Whether some of the document is not indexed, as it is too long"
    )
    part = models.PositiveSmallIntegerField(db_default=0, default=0, help_text="0-based number of the part")
    return [
        migrations.AddField(model_name=model, name="is_cut", field=is_cut),
        migrations.AddField(model_name=model, name="part", field=part),
    ]


class Migration(migrations.Migration):
    dependencies = [("episodes", "0024_environments_of_rollouts")]

    operations = [
        migrations.RunPython(index_again, migrations.RunPython.noop),
        *added("rollouttext"),
        *added("transcripttext"),
        migrations.AlterField(model_name="rollouttext", name="rollout_id", field=models.BigIntegerField()),
        migrations.AlterField(model_name="transcripttext", name="episode_id", field=models.BigIntegerField()),
        migrations.AddConstraint(
            model_name="rollouttext",
            constraint=models.UniqueConstraint(fields=("rollout_id", "part"), name="rollouttext_unique"),
        ),
        migrations.AddConstraint(
            model_name="transcripttext",
            constraint=models.UniqueConstraint(fields=("episode_id", "part"), name="transcripttext_unique"),
        ),
        migrations.AddIndex(
            model_name="transcripttext",
            index=models.Index(
                condition=models.Q(("is_cut", True), ("part", 0)), fields=["episode_id"], name="transcripttext_cut"
            ),
        ),
        migrations.AddIndex(
            model_name="transcripttext",
            index=models.Index(condition=models.Q(("part", 1)), fields=["episode_id"], name="transcripttext_long"),
        ),
        migrations.RunPython(migrations.RunPython.noop, empty),
    ]
