"""Fills `Task.replaced_by` from the edits in the histories of tasks."""

from django.db import migrations


def find(apps, schema_editor):
    task, revision = apps.get_model("environments", "Task"), apps.get_model("environments", "TaskRevision")
    latest = {}
    edits = revision.objects.filter(successor__isnull=False).order_by("id").values_list("task", "successor")
    for old, new in edits.iterator(chunk_size=2000):
        latest[old] = new
        latest.pop(new, None)  # it was restored
    for old, new in latest.items():
        task.objects.filter(pk=old).update(replaced_by=new)


class Migration(migrations.Migration):
    dependencies = [("environments", "0013_superseded_tasks")]

    operations = [migrations.RunPython(find, migrations.RunPython.noop)]
