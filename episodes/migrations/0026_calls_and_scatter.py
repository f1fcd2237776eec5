"""Summaries count failed and refused calls, and keep what the variance of their returns needs.

The follower deletes the rows of existing summaries and makes them again from the episodes.
"""

from django.db import migrations, models

EMPTYING = -1


def start_over(apps, schema_editor):
    """Make the follower derive blocks and spans again."""
    progress = apps.get_model("episodes", "Progress").objects.using(schema_editor.connection.alias)
    progress.filter(name__in=("blocks", "steps")).update(end_number=EMPTYING)


def columns(model):
    """Return the operations on one model of summaries."""
    fields = {
        "failed": models.PositiveBigIntegerField(
            db_default=0, default=0, help_text="Calls of the same episodes that failed"
        ),
        "refused": models.PositiveBigIntegerField(
            db_default=0, default=0, help_text="Calls of the same episodes that were refused"
        ),
        "scatter": models.TextField(
            blank=True,
            db_default="",
            help_text="JSON object by definition of return: scatter of its array (`episodes/attempts/sketches.py`)",
        ),
    }
    expired = models.TextField(
        blank=True, db_default="", help_text="The eight values above of expired episodes, as one array; empty without any"
    )
    return [
        *(migrations.AddField(model, name, field) for name, field in fields.items()),
        migrations.AlterField(model, "expired", expired),
    ]


class Migration(migrations.Migration):

    dependencies = [("episodes", "0025_parts_of_documents")]

    operations = [
        migrations.RunPython(migrations.RunPython.noop, start_over),
        *columns("curveblock"),
        *columns("stepspan"),
        migrations.RunPython(start_over, migrations.RunPython.noop),
    ]
