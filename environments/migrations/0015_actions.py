"""One table of what people did to tasks, splits and environments; revisions may belong to an undo."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0014_find_superseded_tasks'),
    ]

    operations = [
        migrations.AlterField(
            model_name='taskrevision',
            name='kind',
            field=models.CharField(choices=[('edit', 'edit'), ('merge', 'merge'), ('quarantine', 'quarantine'), ('release', 'release'), ('tag', 'tag'), ('splits', 'splits'), ('import', 'import'), ('restore', 'restore'), ('undo', 'undo'), ('sync', 'sync')], max_length=10),
        ),
        migrations.CreateModel(
            name='CurationAction',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token', models.CharField(help_text='What its revisions share', max_length=32, unique=True)),
                ('kind', models.CharField(choices=[('quarantine', 'Quarantined'), ('release', 'Released'), ('tag', 'Tagged'), ('splits', 'Splits changed'), ('edit', 'Edited'), ('import', 'Imported'), ('restore', 'Restored'), ('undo', 'Undone'), ('freeze', 'Split frozen'), ('unfreeze', 'Split unfrozen'), ('seal', 'Split sealed'), ('unseal', 'Split unsealed'), ('delete', 'Split deleted'), ('scoring', 'Scoring changed'), ('enabled', 'Switched on or off'), ('blind', 'Blind play changed'), ('privacy', 'Privacy changed')], max_length=10)),
                ('stage', models.CharField(choices=[('staging', 'staging'), ('applying', 'applying'), ('done', 'done')], help_text='staging: nothing has changed yet; applying: decided, and labels are being written', max_length=8)),
                ('author', models.CharField(help_text="User name, 'operator' without accounts, or a command's name", max_length=150)),
                ('title', models.TextField(help_text='What was done, as a sentence')),
                ('reason', models.TextField(blank=True)),
                ('changed', models.PositiveIntegerField(default=0, help_text='Number of tasks that it changed')),
                ('before', models.TextField(blank=True, help_text='JSON of the settings before, where it changed no tasks')),
                ('after', models.TextField(blank=True, help_text='The same settings after it')),
                ('created', models.DateTimeField()),
                ('environment', models.ForeignKey(blank=True, db_index=False, help_text='null: tasks of several environments', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='environments.environment')),
                ('split', models.ForeignKey(blank=True, help_text='What it made or filled', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='environments.split')),
                ('undoes', models.OneToOneField(blank=True, help_text='The action that this one took back', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='undone_by', to='environments.curationaction')),
            ],
            options={
                'verbose_name': 'action',
                'verbose_name_plural': 'activity',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['environment', '-id'], name='action_environment'), models.Index(fields=['kind', '-id'], name='action_kind'), models.Index(condition=models.Q(('stage', 'done'), _negated=True), fields=['stage'], name='action_unfinished')],
            },
        ),
    ]
