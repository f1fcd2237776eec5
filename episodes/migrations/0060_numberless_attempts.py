"""Figures count the attempts with a reward that was not a number.

If there are any, the rollups are derived again from the episodes, and the statistics of their environments are counted
again: by the next server, or by `manage.py rebuild_statistics`.
"""

from django.db import migrations, models

EMPTYING = -1
PARTS = ("activity", "blocks", "steps", "run_tasks")


def count_again(apps, schema_editor):
    alias = schema_editor.connection.alias
    numberless = apps.get_model("episodes", "Episode").objects.using(alias).filter(
        status="ended", detail__contains="reward was not a number"
    )
    if ids := set(numberless.values_list("environment", flat=True)):
        apps.get_model("environments", "Environment").objects.using(alias).filter(pk__in=ids).update(counted="")
        progress = apps.get_model("episodes", "Progress").objects.using(alias)
        progress.filter(name__in=PARTS).update(end_number=EMPTYING)


class Migration(migrations.Migration):
    dependencies = [("episodes", "0059_suites_of_studies"), ("environments", "0027_numberless_attempts")]

    operations = [
        migrations.AddField(
            "activity",
            "numberless",
            models.PositiveIntegerField(db_default=0, default=0, help_text="Those with a reward that was not a number"),
        ),
        migrations.AddField("activity", "expired_numberless", models.PositiveIntegerField(db_default=0, default=0)),
        migrations.RunPython(count_again, migrations.RunPython.noop),
    ]
