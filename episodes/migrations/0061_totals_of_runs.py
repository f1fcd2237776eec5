"""Totals of runs, by which lists of runs are sorted; the follower writes them."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('episodes', '0060_numberless_attempts'),
    ]

    operations = [
        migrations.CreateModel(
            name='RunTotal',
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
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('scope_id', 'environment_id', 'split_id'), name='runtotal_unique')],
            },
        ),
    ]
