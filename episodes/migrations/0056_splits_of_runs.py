"""Blocks, spans, groups and comparisons of runs are divided by split.

Existing ones are derived again from the episodes: the next server, or `manage.py rebuild_statistics`, deletes their
rows in batches first. Until then curves show the newest episodes and say so.
"""

from django.db import migrations, models

PARTS = ("blocks", "steps", "run_tasks")
EMPTYING = -1
KEYS = {
    "curveblock": ("curveblock_unique", ["scope", "scope_id", "level", "number", "environment_id"], []),
    "stepspan": ("stepspan_unique", ["scope", "scope_id", "width", "number", "environment_id"], []),
    "stepgroup": ("stepgroup_unique", ["run_id", "run_step", "task_id"], []),
    "runtask": ("runtask_unique", ["run_id", "task_id"], ["kind"]),
}
"""Name of the unique constraint, and its fields before and after the split."""


def start_over(apps, schema_editor):
    """Make the parts of the follower that write these rows start from the first ending."""
    progress = apps.get_model("episodes", "Progress").objects.using(schema_editor.connection.alias)
    progress.filter(name__in=PARTS).update(end_number=EMPTYING)


def delete_and_start_over(apps, schema_editor):
    """Delete the rows, of which several may have one key without the split, and start over."""
    for name in KEYS:
        apps.get_model("episodes", name).objects.using(schema_editor.connection.alias).all().delete()
    start_over(apps, schema_editor)


def split_field(text):
    return models.BigIntegerField(db_default=0, help_text=text)


class Migration(migrations.Migration):
    dependencies = [("episodes", "0055_rounded_success")]

    operations = [
        migrations.AddIndex(
            "episode",
            models.Index(
                fields=["run", "split", "id"],
                name="episode_run_split",
                condition=models.Q(run__isnull=False) & models.Q(split__isnull=False),
            ),
        ),
        *(
            migrations.AddField(model, "split_id", split_field("Of a run: split of all of its episodes; 0: none"))
            for model in ("curveblock", "stepspan")
        ),
        *(migrations.AddField(model, "split_id", split_field("0: none")) for model in ("stepgroup", "runtask")),
        *(migrations.RemoveConstraint(model, name) for model, (name, _, _) in KEYS.items()),
        *(
            migrations.AddConstraint(
                model, models.UniqueConstraint(fields=[*before, "split_id", *after], name=name)
            )
            for model, (name, before, after) in KEYS.items()
        ),
        migrations.RunPython(start_over, delete_and_start_over),
    ]
