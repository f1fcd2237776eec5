"""A study has a code for each outcome, and says how many tasks have to be finished for the first of them.

Existing studies go on as they were: everybody who is through with their tasks gets the one code.
"""

from django.db import migrations, models
from django.db.models import F


def keep_the_rules(apps, schema_editor):
    studies = apps.get_model("episodes", "Study").objects.using(schema_editor.connection.alias)
    studies.update(
        least_finished=0, incomplete_code=F("completion_code"), no_task_code=F("completion_code")
    )


class Migration(migrations.Migration):
    dependencies = [("episodes", "0051_key_of_large_blobs")]

    operations = [
        migrations.AddField(
            "study",
            "least_finished",
            models.PositiveIntegerField(
                blank=True,
                help_text="Tasks that a person has to finish to complete it; empty: all that they get",
                null=True,
            ),
        ),
        migrations.AddField(
            "study",
            "incomplete_code",
            models.CharField(
                blank=True, help_text="Shown to who finished fewer tasks", max_length=100
            ),
        ),
        migrations.AddField(
            "study",
            "no_task_code",
            models.CharField(
                blank=True, help_text="Shown to who came when no task was left", max_length=100
            ),
        ),
        migrations.AlterField(
            "study",
            "completion",
            models.TextField(blank=True, help_text="Markdown, shown to who completed it"),
        ),
        migrations.AlterField(
            "study",
            "completion_code",
            models.CharField(blank=True, help_text="Shown to who completed it", max_length=100),
        ),
        migrations.RunPython(keep_the_rules, migrations.RunPython.noop),
    ]
