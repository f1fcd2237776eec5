"""The permission to see the operator's page, given to the group `operator` if there is one."""

from django.contrib.auth.management import create_permissions
from django.db import migrations


def give_to_operators(apps, schema_editor):
    """Make the permission now: Django makes permissions only after all migrations."""
    app = apps.get_app_config("episodes")
    app.models_module = True  # what it looks for, and the historical app lacks
    create_permissions(app, apps=apps, verbosity=0, using=schema_editor.connection.alias)
    permission = apps.get_model("auth", "Permission").objects.get(
        codename="view_operations", content_type__app_label="episodes"
    )
    for group in apps.get_model("auth", "Group").objects.filter(name="operator"):
        group.permissions.add(permission)


class Migration(migrations.Migration):
    dependencies = [
        ("episodes", "0019_incidents"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="incident",
            options={"ordering": ["-pk"], "permissions": [("view_operations", "Can view operations")]},
        ),
        migrations.RunPython(give_to_operators, migrations.RunPython.noop),
    ]
