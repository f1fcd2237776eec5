"""Makes an action of all revisions that have the same token."""

from django.db import migrations
from django.db.models import Count, Max, Min

WORDS = {
    "edit": "Edited {}.",
    "merge": "Edited {}.",
    "quarantine": "Quarantined {}.",
    "release": "Released {}.",
    "tag": "Changed the tags of {}.",
    "splits": "Changed the splits of {}.",
    "restore": "Restored {}.",
}


def find(apps, schema_editor):
    action, revision = apps.get_model("environments", "CurationAction"), apps.get_model("environments", "TaskRevision")
    facts = {"count": Count("task", distinct=True), "kinds": Count("kind", distinct=True), "kind_": Min("kind")}
    facts |= {"low": Min("task__environment"), "high": Max("task__environment"), "at": Min("created"), "first": Min("id")}
    grouped = revision.objects.order_by().values("change").annotate(who=Min("author"), why=Min("reason"), **facts)
    action.objects.bulk_create((_action(action, row) for row in grouped.order_by("first")), batch_size=500)


def _action(action, row):
    is_import = row["why"].startswith("import of ")
    kind = "import" if is_import or row["kinds"] > 1 else "edit" if row["kind_"] == "merge" else row["kind_"]
    tasks = f"{row['count']:,} task{'' if row['count'] == 1 else 's'}"
    return action(
        token=row["change"],
        kind="restore" if kind == "sync" else kind,
        stage="done",
        environment_id=row["low"] if row["low"] == row["high"] else None,
        author=row["who"],
        title=f"Imported {tasks}." if kind == "import" else WORDS.get(kind, "Changed {}.").format(tasks),
        reason=row["why"],
        changed=row["count"],
        created=row["at"],
    )


class Migration(migrations.Migration):
    dependencies = [("environments", "0015_actions")]

    operations = [migrations.RunPython(find, migrations.RunPython.noop)]
