"""Spans of runs add up the standard deviations within groups.

The follower deletes the rows of spans and groups and makes them again from the episodes.
"""

from django.db import migrations, models

EMPTYING = -1


def start_over(apps, schema_editor):
    """Make the follower derive spans and groups again."""
    progress = apps.get_model("episodes", "Progress").objects.using(schema_editor.connection.alias)
    progress.filter(name="steps").update(end_number=EMPTYING)


class Migration(migrations.Migration):

    dependencies = [("episodes", "0028_curators_publish_suites")]

    operations = [
        migrations.RunPython(migrations.RunPython.noop, start_over),
        migrations.AddField(
            model_name="stepspan",
            name="deviations",
            field=models.TextField(
                blank=True,
                db_default="",
                help_text="Of a run: JSON object by code, sums of the standard deviations within groups by definition of "
                "return",
            ),
        ),
        migrations.RunPython(start_over, migrations.RunPython.noop),
    ]
