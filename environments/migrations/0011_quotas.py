from django.db import migrations, models


class Migration(migrations.Migration):
    """Quotas of API keys, and what was recorded for each on its latest day."""

    dependencies = [("environments", "0010_groups_of_people")]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="quotas",
            field=models.JSONField(blank=True, default=dict, help_text="Quotas by name that replace the server's"),
        ),
        migrations.CreateModel(
            name="RecordedBytes",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("label", models.CharField(max_length=200, unique=True)),
                ("day", models.PositiveIntegerField(help_text="Days since 1970-01-01, in UTC")),
                ("count", models.PositiveBigIntegerField()),
            ],
        ),
    ]
