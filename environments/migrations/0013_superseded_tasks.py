"""Which task an edit put in the place of another, so that lists leave out what is superseded."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("environments", "0012_private_environments")]

    operations = [
        migrations.AddField(
            model_name="task",
            name="replaced_by",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                help_text="The task that an edit put in its place last; null: none, or it was restored since",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="environments.task",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("replaced_by__isnull", False)), fields=["id"], name="task_superseded"
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=models.Q(("replaced_by__isnull", False)), fields=["replaced_by"], name="task_replaced_by"
            ),
        ),
    ]
