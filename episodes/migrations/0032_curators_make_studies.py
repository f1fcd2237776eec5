"""The permission to make studies, given to the groups `curator` and `operator` if they exist."""

from django.contrib.auth.management import create_permissions
from django.db import migrations

GIVEN = ("curator", "operator")


def give(apps, schema_editor):
    """Make the permission now: Django makes permissions only after all migrations."""
    app = apps.get_app_config("episodes")
    app.models_module = True  # what it looks for, and the historical app lacks
    create_permissions(app, apps=apps, verbosity=0, using=schema_editor.connection.alias)
    permissions = apps.get_model("auth", "Permission").objects.filter(content_type__app_label="episodes")
    for group in apps.get_model("auth", "Group").objects.filter(name__in=GIVEN):
        group.permissions.add(*permissions.filter(codename="add_study"))


class Migration(migrations.Migration):
    dependencies = [
        ("episodes", "0031_studies"),
        ("environments", "0010_groups_of_people"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(give, migrations.RunPython.noop)]
