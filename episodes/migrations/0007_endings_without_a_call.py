"""Sorts endings without a tool call again: agents' attempts get the cause `no_call`, all others stay probes.

An episode that named a run or a model, or whose client received the prompt, counts as an attempt with a return of 0 from
now on. Episodes are changed in batches, each in its own transaction, so that large tables are never locked for long.
Statistics of tasks and rollups are counted again by the next server, or by `manage.py rebuild_statistics`.
"""

from django.db import migrations, models, transaction
from django.db.models.functions import Concat

BATCH_EPISODES = 2_000
_REBUILT = ("activity", "blocks", "steps", "run_tasks")
_EMPTYING = -1
_NAMED = models.Q(run__isnull=False) | ~models.Q(model="") | models.Q(prompt__isnull=False)
_WORDS = " without a tool call."


def mark_no_calls(apps, schema_editor):
    """Give agents' attempts that ended without a call their cause."""
    episodes = apps.get_model("episodes", "Episode").objects.using(schema_editor.connection.alias)
    changed, environments = 0, set()
    for cause in ("abandoned", "expired"):
        for ids, of in _batches(episodes.filter(cause=cause, is_probe__in=[True]), _NAMED):
            how = models.Value(f"{cause.capitalize()}{_WORDS}", models.TextField())
            longer = Concat(how, models.Value(" ", models.TextField()), "detail")
            detail = models.Case(models.When(detail="", then=how), default=longer)
            zero = dict.fromkeys(("return_sum", "return_last", "return_max", "return_mean"), 0.0)
            changed += episodes.filter(pk__in=ids).update(cause="no_call", is_probe=False, detail=detail, **zero)
            environments |= of
    _count_again(apps, schema_editor, environments)
    if changed:
        print(
            f"\n    {changed:,} episodes of agents ended without a tool call. They were probes and now count as attempts"
            "\n    with a return of 0. Curves, leaderboards and buckets are counted again.",
            end="",
        )


def unmark_no_calls(apps, schema_editor):
    """Restore the cause that the detail names; returns without a reward other than the sum become null."""
    episodes = apps.get_model("episodes", "Episode").objects.using(schema_editor.connection.alias)
    environments = set()
    for ids, of in _batches(episodes.filter(cause="no_call", is_probe__in=[False]), models.Q()):
        with transaction.atomic(using=episodes.db):
            for pk, detail in list(episodes.filter(pk__in=ids).values_list("pk", "detail")):
                how, _, rest = detail.partition(_WORDS)
                cause = "expired" if how == "Expired" else "abandoned"
                nothing = dict.fromkeys(("return_last", "return_max", "return_mean"))
                episodes.filter(pk=pk).update(cause=cause, is_probe=True, detail=rest.strip(), **nothing)
        environments |= of
    _count_again(apps, schema_editor, environments)


def _batches(episodes, condition):
    """Yield batches of ids, each with the ids of its environments."""
    rows, last = episodes.filter(condition, player="agent", status="ended").order_by("pk"), 0
    while found := list(rows.filter(pk__gt=last).values_list("pk", "environment_id")[:BATCH_EPISODES]):
        last = found[-1][0]
        yield [pk for pk, _ in found], {environment for _, environment in found}


def _count_again(apps, schema_editor, environments):
    """Make the statistics of these environments and the rollups due."""
    alias = schema_editor.connection.alias
    if environments:
        apps.get_model("environments", "Environment").objects.using(alias).filter(pk__in=environments).update(counted="")
        progress = apps.get_model("episodes", "Progress").objects.using(alias)
        progress.filter(name__in=_REBUILT).update(end_number=_EMPTYING)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("environments", "0003_what_lists_walk_along"),
        ("episodes", "0006_step_spans"),
    ]

    operations = [
        migrations.AlterField(
            model_name="episode",
            name="cause",
            field=models.CharField(
                blank=True,
                choices=[
                    ("finished", "finished"),
                    ("abandoned", "abandoned"),
                    ("expired", "expired"),
                    ("setup_failed", "setup failed"),
                    ("env_error", "environment error"),
                    ("interrupted", "interrupted"),
                    ("no_call", "no call"),
                ],
                max_length=12,
            ),
        ),
        migrations.AlterField(
            model_name="episode",
            name="is_probe",
            field=models.BooleanField(default=False, help_text="Ended without a tool call and isn't an attempt"),
        ),
        migrations.AddField(
            model_name="activity",
            name="no_call",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.RunPython(mark_no_calls, unmark_no_calls),
    ]
