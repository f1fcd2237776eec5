"""A person can be excluded from a study; their plays carry the mark, so that no figure counts them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0052_outcomes_of_studies")]

    operations = [
        migrations.AddField(
            "guest",
            "excluded",
            models.DateTimeField(
                blank=True, help_text="Since when no figure counts what they play in their study", null=True
            ),
        ),
        migrations.AddField(
            "guest", "exclusion", models.CharField(blank=True, help_text="Why, and by whom", max_length=300)
        ),
        migrations.AddField(
            "play",
            "is_excluded",
            models.BooleanField(
                default=False, help_text="The player was excluded from their study, so no figure counts it"
            ),
        ),
    ]
