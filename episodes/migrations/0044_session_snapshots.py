"""What live sessions saved, so that they come back without making their calls again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0043_search_by_frequency")]

    operations = [
        migrations.CreateModel(
            name="SessionSnapshot",
            fields=[
                ("id", models.BigIntegerField(help_text="Id of the episode", primary_key=True, serialize=False)),
                ("step", models.BigIntegerField(help_text="Index of the last step that it contains")),
                ("state", models.BinaryField()),
                ("problem", models.TextField(blank=True, help_text="Why there is no state")),
            ],
        ),
    ]
