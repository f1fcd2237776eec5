"""Statistics of tasks count the attempts with a reward that was not a number."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("environments", "0026_environment_secrets")]

    operations = [
        migrations.AddField(
            "taskstatistics",
            "numberless",
            models.PositiveIntegerField(
                db_default=0,
                default=0,
                help_text="Attempts whose own return lacks a reward that was not a number",
            ),
        ),
    ]
