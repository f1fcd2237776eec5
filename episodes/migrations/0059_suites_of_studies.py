"""A study refers to the suite that was published for it, which was recognised by its description."""

from datetime import timedelta

import django.db.models.deletion
from django.db import migrations, models

MOMENT = timedelta(hours=1)
"""Longest time that publishing the suite and saving the study take."""


def find_suites(apps, schema_editor):
    """Set the suite that has the name of the study and its tasks, and the description or the time of one for a study.

    People may have changed the description, so the time counts, too.
    """
    for study in apps.get_model("episodes", "Study").objects.select_related("member__version__suite"):
        suite = study.member.version.suite
        is_described = suite.description.startswith("The tasks of the study ")
        if suite.name == study.name and (is_described or abs(study.created - suite.created) < MOMENT):
            study.suite = suite
            study.save(update_fields=["suite"])


class Migration(migrations.Migration):
    dependencies = [("episodes", "0058_exceptions_as_incidents")]

    operations = [
        migrations.AddField(
            "study",
            "suite",
            models.ForeignKey(
                blank=True,
                db_index=False,
                help_text="That was published for it, and is hidden as long as it is; empty: it has tasks of another suite",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="episodes.suite",
            ),
        ),
        migrations.RunPython(find_suites, migrations.RunPython.noop),
    ]
