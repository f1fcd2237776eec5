"""Plays in studies say since when their clock stands still."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0046_what_counts_in_studies")]

    operations = [
        migrations.AddField(
            model_name="play",
            name="paused_since",
            field=models.DateTimeField(
                blank=True,
                help_text="Since when a study's clock stands still, because no page is open; null: it runs",
                null=True,
            ),
        ),
    ]
