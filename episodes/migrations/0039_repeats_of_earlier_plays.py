"""Marks further plays of a task by the same person that were made before such plays were marked.

The rules are those of new plays: an account has had its first attempt with its first play of a task, a guest with the
first that was neither a probe nor failed by the server. Rollups of environments with such plays are derived again by
the next server, or by `manage.py rebuild_statistics`.
"""

from django.db import migrations

FAILURES = ("setup_failed", "env_error", "interrupted")
BATCH_PLAYS = 1_000
REBUILT = ("activity", "blocks", "steps")
EMPTYING = -1


def mark_repeats(apps, schema_editor):
    alias = schema_editor.connection.alias
    plays = apps.get_model("episodes", "Play").objects.using(alias)
    names = ("pk", "user_id", "guest_id", "is_repeat", "episode__task_id", "episode__is_probe", "episode__cause")
    played, repeats = set(), []
    for pk, user, guest, is_repeat, task, is_probe, cause in plays.order_by("pk").values_list(*names).iterator():
        if user is None and guest is None:
            continue
        key = (user if guest is None else None, guest, task)
        if key in played and not is_repeat:
            repeats.append(pk)
        if guest is None or not (is_probe or cause in FAILURES):
            played.add(key)
    for start in range(0, len(repeats), BATCH_PLAYS):
        plays.filter(pk__in=repeats[start : start + BATCH_PLAYS]).update(is_repeat=True)
    if repeats:
        apps.get_model("episodes", "Progress").objects.using(alias).filter(name__in=REBUILT).update(end_number=EMPTYING)


class Migration(migrations.Migration):
    dependencies = [("episodes", "0038_seen_tasks")]

    operations = [migrations.RunPython(mark_repeats, migrations.RunPython.noop)]
