"""Episodes say whether an output may report components of its reward."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0049_episodes_of_keys")]

    operations = [
        migrations.AddField(
            model_name="episode",
            name="has_components",
            field=models.BooleanField(
                blank=True,
                help_text="Whether an output may report components of a reward; null: not known without reading them",
                null=True,
            ),
        ),
    ]
