"""Folds the content of the tasks that a database cannot fold, in batches of one transaction each."""

from django.db import migrations, transaction

from environments.models.folding import fold_json

BATCH_TASKS = 500
_LETTERS = {"sqlite": "length(CAST(spec AS BLOB)) <> length(spec)", "postgresql": "octet_length(spec) <> length(spec)"}
_ESCAPES = {"sqlite": "instr(spec, '\\u') > 0", "postgresql": "strpos(spec, '\\u') > 0"}


def fold(apps, schema_editor):
    connection = schema_editor.connection
    condition = f"({_LETTERS[connection.vendor]} OR {_ESCAPES[connection.vendor]})"
    read = f"SELECT id, spec FROM environments_task WHERE id > %s AND {condition} ORDER BY id LIMIT {BATCH_TASKS}"  # nosec B608 # only our own names
    last = 0
    while True:
        with transaction.atomic(connection.alias), connection.cursor() as cursor:
            cursor.execute(read, [last])
            if not (batch := cursor.fetchall()):
                return
            cursor.executemany(
                "UPDATE environments_task SET folded = %s WHERE id = %s", [(fold_json(spec), pk) for pk, spec in batch]
            )
        last = batch[-1][0]


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("environments", "0022_folded_specs")]

    operations = [migrations.RunPython(fold, migrations.RunPython.noop)]
