"""Folds the content of tasks with invisible characters again, which searches leave out since."""

from django.db import migrations

from environments.invisible import IGNORABLE
from environments.models.folding import fold_json

BATCH_TASKS = 500


def fold(apps, schema_editor):
    task = apps.get_model("environments", "Task")
    rows = task.objects.filter(folded__regex=f"[{IGNORABLE}]").order_by("pk")
    last = 0
    while batch := rows.filter(pk__gt=last).values_list("pk", "spec")[:BATCH_TASKS]:
        for last, spec in batch:
            task.objects.filter(pk=last).update(folded=fold_json(spec))


class Migration(migrations.Migration):
    dependencies = [("environments", "0024_splits_sealed_for_people")]

    operations = [migrations.RunPython(fold, migrations.RunPython.noop)]
