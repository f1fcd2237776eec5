"""Keeps what opens a session again that was opened without an environment's name."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0018_removals_by_hash'),
    ]

    operations = [
        migrations.AddField(
            model_name='sessionlease',
            name='opening',
            field=models.TextField(help_text='What opens the session again until an episode of it is on record', null=True),
        ),
    ]
