"""Gives each rollout the environment of this server that it belongs to.

Existing rollouts get the environment of the name that their clients gave. They are changed in batches, each in its own
transaction, so that large tables are never locked for long.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Max, OuterRef, Subquery

BATCH_ROLLOUTS = 10_000


def name_environments(apps, schema_editor):
    """Set the environment of each rollout that names one."""
    alias = schema_editor.connection.alias
    rollouts = apps.get_model("episodes", "Rollout").objects.using(alias)
    environments = apps.get_model("environments", "Environment").objects.using(alias)
    named = environments.filter(name=OuterRef("environment_name")).values("pk")
    last = rollouts.aggregate(last=Max("pk"))["last"] or 0
    for start in range(0, last + 1, BATCH_ROLLOUTS):
        batch = rollouts.filter(pk__gte=start, pk__lt=start + BATCH_ROLLOUTS)
        batch.filter(environment_name__in=environments.values("name")).update(hosted_environment=Subquery(named))


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("environments", "0012_private_environments"), ("episodes", "0023_sign_on_accounts")]

    operations = [
        migrations.AddField(
            model_name="rollout",
            name="hosted_environment",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                help_text="The one of that name, if its key could use it; empty: played elsewhere, as far as this server "
                "knows",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="rollouts",
                to="environments.environment",
            ),
        ),
        migrations.RunPython(name_environments, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name="rollout",
            index=models.Index(
                condition=models.Q(("hosted_environment__isnull", False)),
                fields=["hosted_environment"],
                name="rollout_hosted",
            ),
        ),
    ]
