"""Rollups count endings by kind, so that every convention can be applied to them when they are read.

Their rows are deleted, and statistics of tasks become due: the next server, or `manage.py rebuild_statistics`, derives
all of them again from the episodes.
"""

from django.db import migrations, models


def empty(apps, schema_editor):
    """Delete the rollups that have other columns now, and make the statistics of all tasks due."""
    alias = schema_editor.connection.alias
    for name in ("CurveBlock", "StepSpan", "RunTask", "Activity"):
        apps.get_model("episodes", name).objects.using(alias).all().delete()
    progress = apps.get_model("episodes", "Progress").objects.using(alias)
    progress.filter(name__in=("activity", "blocks", "steps", "run_tasks")).update(end_number=0)
    apps.get_model("environments", "Environment").objects.using(alias).update(counted="")


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0004_convention_and_kinds'),
        ('episodes', '0007_endings_without_a_call'),
        ('episodes', '0010_environment_revisions'),
    ]

    operations = [
        migrations.RunPython(empty, migrations.RunPython.noop),
        migrations.RemoveConstraint(
            model_name='runtask',
            name='runtask_unique',
        ),
        migrations.RemoveField(
            model_name='activity',
            name='attempts',
        ),
        migrations.RemoveField(
            model_name='curveblock',
            name='attempts',
        ),
        migrations.RemoveField(
            model_name='stepspan',
            name='attempts',
        ),
        migrations.AddField(
            model_name='activity',
            name='expired_scored',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='activity',
            name='expired_successes',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='activity',
            name='expired_total',
            field=models.FloatField(db_default=0.0, default=0.0),
        ),
        migrations.AddField(
            model_name='curveblock',
            name='expired',
            field=models.TextField(blank=True, db_default='', help_text='The five arrays above of expired episodes, as one; empty without any'),
        ),
        migrations.AddField(
            model_name='runtask',
            name='kind',
            field=models.CharField(db_default='', help_text='Empty for finished and abandoned ones', max_length=12),
        ),
        migrations.AddField(
            model_name='stepspan',
            name='expired',
            field=models.TextField(blank=True, db_default='', help_text='The five arrays above of expired episodes, as one; empty without any'),
        ),
        migrations.AlterField(
            model_name='activity',
            name='abandoned',
            field=models.PositiveIntegerField(default=0, help_text='Without probes, like `expired`'),
        ),
        migrations.AlterField(
            model_name='activity',
            name='return_total',
            field=models.FloatField(default=0.0),
        ),
        migrations.AlterField(
            model_name='activity',
            name='scored',
            field=models.PositiveIntegerField(default=0, help_text='Those of them that have a return'),
        ),
        migrations.AlterField(
            model_name='activity',
            name='successes',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AlterField(
            model_name='curveblock',
            name='steps',
            field=models.PositiveBigIntegerField(help_text='Of the episodes that finished or were abandoned'),
        ),
        migrations.AlterField(
            model_name='runtask',
            name='attempts',
            field=models.PositiveIntegerField(default=0, help_text='Rollouts'),
        ),
        migrations.AlterField(
            model_name='stepspan',
            name='steps',
            field=models.PositiveBigIntegerField(help_text='Of the episodes that finished or were abandoned'),
        ),
        migrations.AddConstraint(
            model_name='runtask',
            constraint=models.UniqueConstraint(fields=('run_id', 'task_id', 'kind'), name='runtask_unique'),
        ),
        migrations.RunPython(migrations.RunPython.noop, empty),
    ]
