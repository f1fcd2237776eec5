"""Uploaded rollouts with an episode, and those whose episode is a guess, are listed along indexes of their own."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0047_paused_since")]

    operations = [
        migrations.AddIndex(
            model_name="rollout",
            index=models.Index(
                condition=models.Q(("episode__isnull", False), models.Q(("joined_by", "guess"), _negated=True)),
                fields=["id"],
                name="rollout_joined",
            ),
        ),
        migrations.AddIndex(
            model_name="rollout",
            index=models.Index(
                condition=models.Q(("episode__isnull", False), ("joined_by", "guess")),
                fields=["id"],
                name="rollout_guess",
            ),
        ),
    ]
