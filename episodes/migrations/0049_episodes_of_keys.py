"""Episodes that were played with a key are read along an index of their own."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0048_joined_rollouts")]

    operations = [
        migrations.AddIndex(
            model_name="episode",
            index=models.Index(
                condition=models.Q(("key_label", ""), _negated=True), fields=["key_label", "id"], name="episode_key"
            ),
        ),
    ]
