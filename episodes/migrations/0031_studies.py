"""Studies with people: a study, the tasks that its guests were dealt, and the invites that lead to it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0014_find_superseded_tasks'),
        ('episodes', '0030_rollups_by_environment'),
    ]

    operations = [
        migrations.AddField(
            model_name='guest',
            name='consented',
            field=models.DateTimeField(blank=True, help_text='When they started the study of the invite', null=True),
        ),
        migrations.AddField(
            model_name='invite',
            name='is_personal',
            field=models.BooleanField(default=False, help_text='Everyone who opens the link is the same guest, whose name is that of the invite'),
        ),
        migrations.CreateModel(
            name='Study',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='As in addresses: letters, digits, and - _ . inside', max_length=100, unique=True)),
                ('is_shuffled', models.BooleanField(default=False, help_text='Every person gets an order of their own')),
                ('people_per_task', models.PositiveIntegerField(blank=True, help_text='Tasks are dealt out until each has so many people; empty: everybody gets all', null=True)),
                ('tasks_per_person', models.PositiveIntegerField(blank=True, help_text='Most tasks that one person gets; empty: no limit', null=True)),
                ('attempts', models.PositiveSmallIntegerField(default=1, help_text='Attempts that a person has at each task')),
                ('is_blind', models.BooleanField(default=False, help_text='Rewards stay hidden until an episode ends')),
                ('instructions', models.TextField(blank=True, help_text='Markdown, shown before the first task')),
                ('consent', models.TextField(blank=True, help_text='Markdown, to which people agree before the first task')),
                ('completion', models.TextField(blank=True, help_text='Markdown, shown after the last task')),
                ('completion_code', models.CharField(blank=True, help_text='Shown after the last task', max_length=100)),
                ('counts_left', models.BooleanField(default=False, help_text='Attempts that people left or gave up count in the results of the study')),
                ('author', models.CharField(max_length=150)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('closed', models.DateTimeField(blank=True, help_text='When its links were revoked for good', null=True)),
                ('environment', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='studies', to='environments.environment')),
                ('member', models.ForeignKey(help_text='Whose tasks the study has', on_delete=django.db.models.deletion.PROTECT, related_name='studies', to='episodes.suitemember')),
            ],
            options={
                'verbose_name_plural': 'studies',
                'ordering': ['-id'],
            },
        ),
        migrations.AddField(
            model_name='invite',
            name='study',
            field=models.ForeignKey(blank=True, help_text='If it is for one', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='invites', to='episodes.study'),
        ),
        migrations.CreateModel(
            name='DealtTask',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('starting', models.DateTimeField(blank=True, help_text='Since when a session for it is being started', null=True)),
                ('guest', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='dealt', to='episodes.guest')),
                ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='environments.task')),
                ('study', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='dealt', to='episodes.study')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [models.Index(fields=['study', 'task'], name='dealttask_study'), models.Index(fields=['task'], name='dealttask_task')],
                'constraints': [models.UniqueConstraint(fields=('guest', 'task'), name='dealttask_unique')],
            },
        ),
    ]
