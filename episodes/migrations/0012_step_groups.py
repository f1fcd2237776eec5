"""Groups of runs by training step, from which curves tell the share of groups without variance."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('episodes', '0011_rollups_by_kind'),
    ]

    operations = [
        migrations.AddField(
            model_name='stepspan',
            name='groups',
            field=models.TextField(blank=True, db_default='', help_text='Of a run: JSON object, number of groups by signature (`episodes/attempts/group_states.py`)'),
        ),
        migrations.CreateModel(
            name='StepGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('run_id', models.BigIntegerField()),
                ('run_step', models.BigIntegerField()),
                ('task_id', models.BigIntegerField()),
                ('state', models.TextField(help_text='JSON array, as `episodes/attempts/group_states.py` makes it')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run_id', 'run_step', 'task_id'), name='stepgroup_unique')],
            },
        ),
    ]
