"""Runs have a title, which several may share, and a number. Those that exist are the first of theirs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("episodes", "0053_excluded_people")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="title",
            field=models.CharField(
                blank=True,
                default="",
                help_text="As clients say it; the name of the second run with this title ends with (2)",
                max_length=200,
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="run",
            name="number",
            field=models.PositiveIntegerField(default=1, help_text="1 for the first run of its title"),
        ),
        migrations.AddField(
            model_name="run",
            name="own_id",
            field=models.CharField(
                blank=True,
                default="",
                help_text="Id that its client gave it, among the runs of its title",
                max_length=200,
            ),
            preserve_default=False,
        ),
        migrations.RunSQL("UPDATE episodes_run SET title = name", migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(
                condition=~models.Q(own_id=""), fields=("title", "own_id"), name="run_own_id"
            ),
        ),
        migrations.AddIndex(
            model_name="run", index=models.Index(fields=["title", "number"], name="run_title")
        ),
    ]
