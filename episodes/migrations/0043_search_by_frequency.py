"""Makes the cost of a search on PostgreSQL independent of the number of transcripts.

The newest blocks are looked up one by one while all matches are probably more than four times as many as are wanted,
as a block in the older half and those looked up so far say. Otherwise all matches are read at once. A look for
beginnings of words costs as much as all of their matches, so it has sixteen blocks.
"""

from django.db import migrations

# the function of migration 0025, which looked up ever more blocks at once; a look costs blocks times transcripts
FIND = """
CREATE OR REPLACE FUNCTION
episodes_transcripts_with(wanted tsquery, phrases tsquery, most integer, looked_at integer, newest bigint)
RETURNS SETOF bigint LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_indexscan = off SET work_mem = '64MB' SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    enough bigint := CASE WHEN phrases IS NULL THEN most ELSE looked_at END;
    blocks bigint := newest / 16384 + 1;
    width integer := CASE WHEN wanted::text LIKE '%:*%' THEN 16 ELSE 1 END;
    block bigint := blocks - width;
    sampled bigint;
    found bigint[] := '{}';
BEGIN
    IF newest > 4 * enough THEN -- else all matches are fewer than that
        SELECT COUNT(*) INTO sampled FROM episodes_transcripttext
            WHERE words @@ (wanted && ('B' || blocks / 3)::tsquery);
        LOOP
            found := found || ARRAY(
                SELECT DISTINCT episode_id FROM episodes_transcripttext WHERE words @@ (wanted && (
                    SELECT string_agg('B' || one, ' | ') FROM generate_series(block, block + width - 1) AS one
                )::tsquery) ORDER BY episode_id DESC
            );
            EXIT WHEN cardinality(found) >= enough OR block < 0
                OR GREATEST(sampled, cardinality(found) / (blocks - block)) * blocks <= 4 * enough;
            block := block - width;
        END LOOP;
        found := found[:enough];
    END IF;
    IF enough IS NULL OR cardinality(found) < enough THEN
        found := ARRAY(
            SELECT DISTINCT episode_id FROM episodes_transcripttext WHERE words @@ wanted
            ORDER BY episode_id DESC LIMIT enough
        );
    END IF;
    IF phrases IS NULL THEN
        RETURN QUERY SELECT unnest(found);
    ELSE
        RETURN QUERY SELECT DISTINCT episode_id FROM episodes_transcripttext
            WHERE episode_id = ANY (found) AND words @@ phrases ORDER BY episode_id DESC LIMIT most;
    END IF;
END
$$
"""


def replace_function(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(FIND, params=None)


class Migration(migrations.Migration):
    dependencies = [("episodes", "0042_run_changes")]

    operations = [migrations.RunPython(replace_function, migrations.RunPython.noop)]
