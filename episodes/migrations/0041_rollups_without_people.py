"""Blocks and spans leave out people.

Existing ones are derived again from the episodes, if people have played: the next server, or
`manage.py rebuild_statistics`, deletes their rows in batches first.
"""

from django.db import migrations

EMPTYING = -1


def start_over(apps, schema_editor):
    """Make the parts of the follower that write blocks and spans start from the first ending."""
    alias = schema_editor.connection.alias
    played = apps.get_model("episodes", "Episode").objects.using(alias).filter(player="human")
    if played.exists():
        progress = apps.get_model("episodes", "Progress").objects.using(alias)
        progress.filter(name__in=("blocks", "steps")).update(end_number=EMPTYING)


class Migration(migrations.Migration):
    dependencies = [("episodes", "0040_incidents_of_workers")]

    operations = [migrations.RunPython(start_over, start_over)]
