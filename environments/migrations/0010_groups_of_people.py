"""The groups viewer, player, curator and operator, made once: later changes by an administrator stay.

Accounts that exist already become players, because every account could see the pages and play until now.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.management import create_permissions
from django.db import migrations

VIEWER = ["episodes.view_episode"]
PLAYER = [
    *VIEWER,
    "episodes.add_play",
    "episodes.add_note",
    "episodes.add_savedview",
    "environments.add_taskflag",
]
CURATOR = [
    *PLAYER,
    "environments.open_admin",
    "environments.view_hidden_fields",
    *(f"environments.{verb}_{model}" for verb in ("view", "change") for model in ("environment", "split", "task")),
    "environments.add_task",
    "environments.delete_split",
    "episodes.view_run",
    "episodes.change_run",
]
OPERATOR = [
    *CURATOR,
    *(f"environments.{verb}_apikey" for verb in ("view", "add", "change")),
    "episodes.add_invite",
    "episodes.delete_episode",
    *(f"episodes.{verb}_redaction" for verb in ("view", "add")),
    "episodes.view_removal",
    "episodes.view_incident",
    "environments.view_securityevent",
    "episodes.view_operations",  # made by a migration that may run later and then gives it to the group itself
    *(f"episodes.{verb}_retention" for verb in ("view", "add", "change", "delete")),
]
GROUPS = {"viewer": VIEWER, "player": PLAYER, "curator": CURATOR, "operator": OPERATOR}


def make_groups(apps: Any, schema_editor: Any) -> None:
    try:
        apps.get_model("episodes", "Incident")
    except LookupError:  # a dependency on its migration would be a circle of the squashed ones
        raise RuntimeError("This database is very old. Run first: manage.py migrate episodes 0019_incidents") from None
    for label in ("environments", "episodes"):  # Django makes permissions only after all migrations
        app = apps.get_app_config(label)
        app.models_module = True
        create_permissions(app, apps=apps, verbosity=0, using=schema_editor.connection.alias)
    Group, Permission = apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    found = {
        f"{one.content_type.app_label}.{one.codename}": one for one in Permission.objects.select_related("content_type")
    }
    for name, permissions in GROUPS.items():
        group, is_new = Group.objects.get_or_create(name=name)
        if is_new:  # a group of this name that an administrator made stays as it is
            group.permissions.set(found[one] for one in permissions if one in found)
    players = Group.objects.get(name="player")
    for user in apps.get_model("auth", "User").objects.filter(is_superuser=False):
        user.groups.add(players)


class Migration(migrations.Migration):
    dependencies = [
        ("environments", "0009_security_log"),
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
                ],
            },
        ),
        migrations.RunPython(make_groups, migrations.RunPython.noop),
    ]
