"""Tasks at which the environment fails are failing, not unseen."""

from django.conf import settings
from django.db import migrations, models
from django.db.models import Exists, F, OuterRef, Q


def set_bucket(apps, schema_editor):
    statistics = apps.get_model("environments", "TaskStatistics").objects.filter(env_error__gt=0)
    is_most = Q(env_error__gte=F("attempts")) & Q(env_error__gte=settings.ORSWEB_BUCKET_ATTEMPTS)
    statistics.filter(Q(attempts=0) | is_most).update(bucket="failing")
    tasks = apps.get_model("environments", "Task").objects.filter(is_unseen=True)
    has_failed = Exists(statistics.filter(by="all", task=OuterRef("pk")))
    tasks.filter(has_failed).update(is_unseen=False)


def recount(apps, schema_editor):
    """Let the server count anew at its start, which sets the buckets that it knows."""
    failing = apps.get_model("environments", "TaskStatistics").objects.filter(env_error__gt=0)
    environments = apps.get_model("environments", "Environment").objects
    environments.filter(pk__in=failing.values("environment")).update(bucketed="")


class Migration(migrations.Migration):
    dependencies = [("environments", "0027_numberless_attempts")]

    operations = [
        migrations.AlterField(
            "task",
            "is_unseen",
            models.BooleanField(
                db_default=True,
                help_text="No attempt was counted and no failure of the environment; may still say "
                "so of one that has statistics, never the other way round",
            ),
        ),
        migrations.RunPython(set_bucket, recount),
    ]
