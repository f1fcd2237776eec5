"""Statistics of tasks leave out people, so those of environments that people have played are counted again.

The next server does it, or `manage.py rebuild_statistics`.
"""

from django.db import migrations


def recount(apps, schema_editor):
    alias = schema_editor.connection.alias
    played = apps.get_model("episodes", "Episode").objects.using(alias).filter(player="human").exclude(player="agent")
    ids = set(played.values_list("environment", flat=True))
    apps.get_model("environments", "Environment").objects.using(alias).filter(pk__in=ids).update(counted="")


class Migration(migrations.Migration):
    dependencies = [("episodes", "0033_first_attempts")]

    operations = [migrations.RunPython(recount, recount)]
