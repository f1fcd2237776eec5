"""Notes the code that the tasks of an environment follow, if they depend on it alone."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0019_lease_openings'),
    ]

    operations = [
        migrations.AddField(
            model_name='environment',
            name='listed_code',
            field=models.CharField(blank=True, db_default='', help_text='Code that the tasks follow, if they depend on it alone', max_length=32),
        ),
    ]
