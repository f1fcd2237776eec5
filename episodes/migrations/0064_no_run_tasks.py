from django.db import migrations


def forget_place(apps, schema_editor):
    """Forget up to where RunTask was counted: without it, an earlier version counts from the start."""
    apps.get_model("episodes", "Progress").objects.filter(name="run_tasks").delete()


class Migration(migrations.Migration):
    dependencies = [("episodes", "0063_saved_views_of_pages")]

    operations = [
        migrations.RunPython(forget_place, migrations.RunPython.noop),
        migrations.DeleteModel(name="RunTask"),
    ]
