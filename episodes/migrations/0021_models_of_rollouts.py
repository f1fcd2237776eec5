"""Gives uploaded rollouts whose clients name no model that of their episode, as the follower does from this version on.

Rollouts are changed in batches, each in its own transaction, so that large tables are never locked for long. Episodes
that are a guess give their rollouts nothing.
"""

from django.db import migrations, models
from django.db.models import Max, OuterRef, Subquery

BATCH_ROLLOUTS = 10_000


def name_models(apps, schema_editor):
    """Name the model of each such rollout."""
    alias = schema_editor.connection.alias
    rollouts = apps.get_model("episodes", "Rollout").objects.using(alias)
    episodes = apps.get_model("episodes", "Episode").objects.using(alias)
    played = episodes.filter(pk=OuterRef("episode")).values("model")
    last = rollouts.aggregate(last=Max("pk"))["last"] or 0
    for start in range(0, last + 1, BATCH_ROLLOUTS):
        joined = rollouts.filter(pk__gte=start, pk__lt=start + BATCH_ROLLOUTS, model="", episode__in=episodes.all())
        joined.exclude(joined_by="guess").update(model=Subquery(played))


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("episodes", "0015_models_of_described_runs")]

    operations = [
        migrations.AlterField(
            model_name="rollout",
            name="model",
            field=models.CharField(
                blank=True,
                help_text="As the client names it, or else that of its episode unless it is a guess",
                max_length=200,
            ),
        ),
        migrations.RunPython(name_models, migrations.RunPython.noop),
    ]
