"""Totals of the latest training steps of runs, by which lists of runs are sorted.

The follower writes them with the spans, which are derived again from the episodes: the next server, or
`manage.py rebuild_statistics`, deletes their rows in batches first. Until then curves by training step are not complete
and say so.
"""

from django.db import migrations, models


def start_over(apps, schema_editor):
    """Make the part of the follower that writes spans start from the first ending."""
    progress = apps.get_model("episodes", "Progress").objects.using(schema_editor.connection.alias)
    progress.filter(name="steps").update(end_number=-1)


class Migration(migrations.Migration):
    dependencies = [
        ('episodes', '0064_no_run_tasks'),
    ]

    operations = [
        migrations.CreateModel(
            name='LatestTotal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('scope', models.CharField(choices=[('environment', 'environment'), ('split', 'split'), ('run', 'run')], max_length=11)),
                ('scope_id', models.BigIntegerField()),
                ('environment_id', models.BigIntegerField(db_default=0, help_text='Environment of all of its episodes')),
                ('split_id', models.BigIntegerField(db_default=0, help_text='Of a run: split of all of its episodes; 0: none')),
                ('first_end', models.BigIntegerField(help_text='end_number of its first episode')),
                ('last_end', models.BigIntegerField(help_text='end_number of its last episode')),
                ('began', models.DateTimeField(help_text='When the first of its episodes ended')),
                ('ended', models.DateTimeField(help_text='When the last of its episodes ended')),
                ('episodes', models.PositiveIntegerField()),
                ('causes', models.TextField(help_text="JSON object: endings by cause, probes as 'probe'")),
                ('steps', models.PositiveBigIntegerField(help_text='Of the episodes that finished or were abandoned')),
                ('return_sum', models.TextField()),
                ('return_last', models.TextField()),
                ('return_max', models.TextField()),
                ('return_mean', models.TextField()),
                ('length', models.TextField(help_text='Steps of an episode')),
                ('failed', models.PositiveBigIntegerField(db_default=0, default=0, help_text='Calls of the same episodes that failed')),
                ('refused', models.PositiveBigIntegerField(db_default=0, default=0, help_text='Calls of the same episodes that were refused')),
                ('scatter', models.TextField(blank=True, db_default='', help_text='JSON object by definition of return: scatter of its array (`episodes/attempts/sketches.py`)')),
                ('expired', models.TextField(blank=True, db_default='', help_text='The eight values above of expired episodes, as one array; empty without any')),
                ('width', models.BigIntegerField(help_text='Of the spans: training steps')),
                ('number', models.BigIntegerField(help_text='Of the first of the spans, in any environment')),
                ('step_low', models.BigIntegerField(help_text='Lowest training step of its episodes')),
                ('step_high', models.BigIntegerField(help_text='Highest training step of its episodes')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('scope_id', 'environment_id', 'split_id'), name='latesttotal_unique')],
            },
        ),
        migrations.RunPython(start_over, migrations.RunPython.noop),
    ]
