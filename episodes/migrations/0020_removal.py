"""What removing episodes needs: a log, retention periods, and finding out whether a blob is still referred to.

Blobs have few references, so their indexes are small, but making them reads all steps once: about a minute for ten
million.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0004_convention_and_kinds'),
        ('episodes', '0018_redactions'),
    ]

    operations = [
        migrations.CreateModel(
            name='LooseBlob',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('digest', models.CharField(max_length=32)),
            ],
        ),
        migrations.CreateModel(
            name='Removal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('author', models.CharField(help_text='"retention" for those that a retention period removed', max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('query', models.TextField(blank=True, help_text='The filter of the episodes, as in the address of a page')),
                ('episodes', models.PositiveBigIntegerField(default=0, help_text='Removed so far')),
                ('steps', models.PositiveBigIntegerField(default=0)),
                ('last_episode', models.BigIntegerField(default=0, help_text='Highest id of them, which is never used again')),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('updated', models.DateTimeField(auto_now=True, help_text='When the last of its episodes was removed')),
                ('ended', models.DateTimeField(blank=True, help_text='Empty while it runs, or if it was stopped', null=True)),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='Retention',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('days', models.PositiveIntegerField(blank=True, help_text='Days after its end at which an episode is removed; empty: never', null=True)),
            ],
            options={
                'verbose_name': 'retention period',
                'ordering': ['environment__name', 'run__name'],
            },
        ),
        migrations.AddField(
            model_name='progress',
            name='removals',
            field=models.PositiveBigIntegerField(db_default=0, default=0, help_text='Rises when episodes are removed; what was read before is then read again'),
        ),
        migrations.AddIndex(
            model_name='rollout',
            index=models.Index(condition=models.Q(('event_blob__isnull', False)), fields=['event_blob'], name='rollout_event_blob'),
        ),
        migrations.AddIndex(
            model_name='rolloutmessage',
            index=models.Index(condition=models.Q(('content_blob__isnull', False)), fields=['content_blob'], name='message_content_blob'),
        ),
        migrations.AddIndex(
            model_name='rolloutmessage',
            index=models.Index(condition=models.Q(('summary_blob__isnull', False)), fields=['summary_blob'], name='message_summary_blob'),
        ),
        migrations.AddIndex(
            model_name='rolloutmessage',
            index=models.Index(condition=models.Q(('extra_blob__isnull', False)), fields=['extra_blob'], name='message_extra_blob'),
        ),
        migrations.AddIndex(
            model_name='step',
            index=models.Index(condition=models.Q(('input_blob__isnull', False)), fields=['input_blob'], name='step_input_blob'),
        ),
        migrations.AddIndex(
            model_name='step',
            index=models.Index(condition=models.Q(('output_blob__isnull', False)), fields=['output_blob'], name='step_output_blob'),
        ),
        migrations.AddField(
            model_name='retention',
            name='environment',
            field=models.OneToOneField(blank=True, help_text='Or choose a run', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='retention', to='environments.environment'),
        ),
        migrations.AddField(
            model_name='retention',
            name='run',
            field=models.OneToOneField(blank=True, help_text='Or choose an environment', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='retention', to='episodes.run'),
        ),
        migrations.AddConstraint(
            model_name='retention',
            constraint=models.CheckConstraint(condition=models.Q(('environment__isnull', True), ('run__isnull', True), _connector='XOR'), name='retention_of_one'),
        ),
    ]
