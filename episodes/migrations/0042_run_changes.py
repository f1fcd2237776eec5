"""Counts changes of runs for the servers of a database on PostgreSQL (`episodes/runs/change_counter.py`)."""

from django.db import migrations


def create(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("CREATE SEQUENCE episodes_runchanges")


def drop(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP SEQUENCE episodes_runchanges")


class Migration(migrations.Migration):
    dependencies = [("episodes", "0041_rollups_without_people")]

    operations = [migrations.RunPython(create, drop)]
