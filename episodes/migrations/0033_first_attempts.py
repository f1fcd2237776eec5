"""The mark of plays that are not the first attempt of a person at the task."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('episodes', '0032_curators_make_studies'),
    ]

    operations = [
        migrations.AddField(
            model_name='play',
            name='is_repeat',
            field=models.BooleanField(default=False, help_text="The player had played the task before, or had seen it, so it isn't their first attempt"),
        ),
    ]
