"""How the session of an episode goes on after a restart of the server; null for those before, which do not."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0036_time_limits_of_studies")]

    operations = [
        migrations.AddField(
            model_name="episode",
            name="survival",
            field=models.CharField(
                blank=True,
                choices=[
                    ("replay", "its calls are made again"),
                    ("key", "its calls are made again, with its API key"),
                    ("secrets", "ends: secrets"),
                    ("toolset", "ends: toolset"),
                ],
                help_text="How its session goes on after a restart of the server; null: it ends",
                max_length=8,
                null=True,
            ),
        )
    ]
