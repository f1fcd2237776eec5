"""Pauses in studies: how long an episode is kept for a player who is away, and how long they were."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('episodes', '0034_statistics_without_people'),
    ]

    operations = [
        migrations.AddField(
            model_name='play',
            name='paused_seconds',
            field=models.FloatField(default=0.0, help_text='Time for which the player was away, in a study'),
        ),
        migrations.AddField(
            model_name='study',
            name='pause_seconds',
            field=models.PositiveIntegerField(default=3600, help_text='How long an episode is kept while its player is away'),
        ),
    ]
