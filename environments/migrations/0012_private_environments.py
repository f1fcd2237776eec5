"""Private environments with their members, and the permission to see all of them, for the group `operator`."""

from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.db import migrations, models


def give_to_operators(apps, schema_editor):
    """Make the permission now: Django makes permissions only after all migrations."""
    app = apps.get_app_config("environments")
    app.models_module = True  # what it looks for, and the historical app lacks
    create_permissions(app, apps=apps, verbosity=0, using=schema_editor.connection.alias)
    permission = apps.get_model("auth", "Permission").objects.get(
        codename="view_private_environments", content_type__app_label="environments"
    )
    for group in apps.get_model("auth", "Group").objects.filter(name="operator"):
        group.permissions.add(permission)


class Migration(migrations.Migration):
    dependencies = [
        ("environments", "0011_quotas"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="environment",
            options={
                "ordering": ["position", "name"],
                "permissions": [
                    ("open_admin", "Can open the admin"),
                    ("view_hidden_fields", "Can see hidden fields of tasks"),
                    ("view_private_environments", "Can see all private environments"),
                ],
            },
        ),
        migrations.AddField(
            model_name="environment",
            name="is_private",
            field=models.BooleanField(
                db_default=False, default=False, help_text="Whether only its members may see it, and keys that name it"
            ),
        ),
        migrations.AddField(
            model_name="environment",
            name="member_groups",
            field=models.ManyToManyField(
                blank=True, help_text="Groups whose people may see it if private", related_name="+", to="auth.group"
            ),
        ),
        migrations.AddField(
            model_name="environment",
            name="members",
            field=models.ManyToManyField(
                blank=True, help_text="Who may see it if private", related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.RunPython(give_to_operators, migrations.RunPython.noop),
    ]
