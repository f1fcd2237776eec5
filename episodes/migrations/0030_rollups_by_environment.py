"""Blocks and spans have a row for each environment of their episodes.

Existing ones are derived again from the episodes: the next server, or `manage.py rebuild_statistics`, deletes their
rows in batches first. Until then curves show the newest episodes and say so.
"""

from django.db import migrations, models


def start_over(apps, schema_editor):
    """Make the parts of the follower that write blocks and spans start from the first ending."""
    progress = apps.get_model("episodes", "Progress").objects.using(schema_editor.connection.alias)
    progress.filter(name__in=("blocks", "steps")).update(end_number=-1)


def delete_and_start_over(apps, schema_editor):
    """Delete the rows of blocks and spans, of which several may have one number, and start over."""
    alias = schema_editor.connection.alias
    for name in ("CurveBlock", "StepSpan"):
        apps.get_model("episodes", name).objects.using(alias).all().delete()
    start_over(apps, schema_editor)


def environment_field():
    return models.BigIntegerField(db_default=0, help_text="Environment of all of its episodes")


class Migration(migrations.Migration):
    dependencies = [("episodes", "0029_group_deviations")]

    operations = [
        migrations.AddField("curveblock", "environment_id", environment_field()),
        migrations.AddField("stepspan", "environment_id", environment_field()),
        migrations.RemoveConstraint("curveblock", "curveblock_unique"),
        migrations.RemoveConstraint("stepspan", "stepspan_unique"),
        migrations.AddConstraint(
            "curveblock",
            models.UniqueConstraint(
                fields=["scope", "scope_id", "level", "number", "environment_id"], name="curveblock_unique"
            ),
        ),
        migrations.AddConstraint(
            "stepspan",
            models.UniqueConstraint(
                fields=["scope", "scope_id", "width", "number", "environment_id"], name="stepspan_unique"
            ),
        ),
        migrations.RunPython(start_over, delete_and_start_over),
    ]
