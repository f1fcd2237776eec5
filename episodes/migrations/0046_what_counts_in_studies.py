"""Plays in studies remember whether they count if their player leaves them.

Existing ones get this from their study. In it, one whose time ran out without a call is no probe, nor one that was left
if the study counts those; without a time limit, one that expired without a reason was left. Rollups are derived again
by the next server, or by `manage.py rebuild_statistics`, if people have played in studies.
"""

from django.db import migrations, models
from django.db.models import Q

REBUILT = ("activity", "blocks", "steps")
EMPTYING = -1


def mark_plays(apps, schema_editor):
    alias = schema_editor.connection.alias
    studies = apps.get_model("episodes", "Study").objects.using(alias)
    plays = apps.get_model("episodes", "Play").objects.using(alias)
    episodes = apps.get_model("episodes", "Episode").objects.using(alias)
    marked = 0
    for study in studies.order_by("pk"):
        own = plays.filter(guest__invite__study=study)
        marked += own.update(counts_left=study.counts_left)
        of_study = episodes.filter(pk__in=own.values("pk"), status="ended")
        if study.limit_seconds is None:
            of_study.filter(cause="expired", detail="").update(cause="abandoned")
        counted = Q(cause="expired") | Q(cause="abandoned") if study.counts_left else Q(cause="expired")
        of_study.filter(counted, is_probe=True).update(is_probe=False)
    if marked:
        apps.get_model("episodes", "Progress").objects.using(alias).filter(name__in=REBUILT).update(end_number=EMPTYING)


class Migration(migrations.Migration):
    dependencies = [("episodes", "0045_session_secrets")]

    operations = [
        migrations.AddField(
            "play",
            "counts_left",
            models.BooleanField(
                blank=True,
                help_text="In a study, whether it counts if its player leaves it; null: in no study",
                null=True,
            ),
        ),
        migrations.RunPython(mark_plays, migrations.RunPython.noop),
    ]
