"""Returns that are rounded to the threshold are no successes any more, such as 0.1 + 0.2 above 0.3.

The statistics of tasks in environments that have such episodes are counted again, and the activity and the curves are
derived again: by the next server, or by `manage.py rebuild_statistics`.
"""

from django.db import migrations
from django.db.models import Q

from environments.scoring.returns import RETURNS, bar_of

EMPTYING = -1


def count_again(apps, schema_editor):
    alias = schema_editor.connection.alias
    environments = apps.get_model("environments", "Environment").objects.using(alias)
    episodes = apps.get_model("episodes", "Episode").objects.using(alias)
    wrong = []
    for row in environments.only("success_threshold", "declared_threshold"):
        is_between = Q()
        for threshold in {row.success_threshold, row.declared_threshold}:
            for name in RETURNS:
                column = f"return_{name}"
                is_between |= Q(**{f"{column}__gt": threshold, f"{column}__lte": bar_of(threshold)})
        if episodes.filter(is_between, environment=row.pk).exists():
            wrong.append(row.pk)
    if wrong:
        environments.filter(pk__in=wrong).update(counted="")
        progress = apps.get_model("episodes", "Progress").objects.using(alias)
        progress.filter(name__in=("activity", "blocks", "steps")).update(end_number=EMPTYING)


class Migration(migrations.Migration):
    dependencies = [("episodes", "0054_runs_are_executions"), ("environments", "0023_fold_specs")]

    operations = [migrations.RunPython(count_again, migrations.RunPython.noop)]
