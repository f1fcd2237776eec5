"""Where searches compare the content of tasks, if a database cannot fold it. Null needs no rewrite of the table."""

from django.db import migrations

import environments.models.folding


class Migration(migrations.Migration):
    dependencies = [("environments", "0021_sync_conflicts")]

    operations = [
        migrations.AddField(
            model_name="task",
            name="folded",
            field=environments.models.folding.FoldedJSON(
                editable=False,
                help_text="The spec as searches compare it; null: it is in ASCII, so it is the spec",
                null=True,
            ),
        ),
    ]
