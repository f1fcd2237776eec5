"""Keeps what conflicts between people's changes of tasks and a class that changed or dropped them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0020_listed_code'),
    ]

    operations = [
        migrations.CreateModel(
            name='SyncConflict',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('decision', models.CharField(choices=[('edit', 'edited'), ('removal', 'taken out'), ('quarantine', 'quarantined')], help_text='What people did to the former task', max_length=10)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('settled', models.DateTimeField(blank=True, null=True)),
                ('settled_by', models.CharField(blank=True, max_length=150)),
                ('former', models.ForeignKey(db_index=False, help_text='What the class listed before', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='environments.task')),
                ('kept', models.ForeignKey(db_index=False, help_text='What people made of it by an edit', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='environments.task')),
                ('listed', models.ForeignKey(db_index=False, help_text='What the class lists instead; null: nothing', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='environments.task')),
                ('split', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='conflicts', to='environments.split')),
            ],
            options={
                'verbose_name': 'conflict',
                'ordering': ['-id'],
            },
        ),
    ]
