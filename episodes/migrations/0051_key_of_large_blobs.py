"""The key of a large blob is the digest of what is stored. Only its description changes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0050_has_components")]

    operations = [
        migrations.AlterField(
            model_name="blob",
            name="digest",
            field=models.CharField(
                help_text="blake2b-128, hexadecimal: of the content, or of `data` if it is large",
                max_length=32,
                primary_key=True,
                serialize=False,
            ),
        ),
    ]
