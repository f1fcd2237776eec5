"""How rollouts count is a part of an environment's definition, and statistics of tasks count them by kind."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0003_what_lists_walk_along'),
    ]

    operations = [
        migrations.AddField(
            model_name='environment',
            name='convention',
            field=models.CharField(db_default='zkoo', default='zkoo', help_text='How rollouts count, as the class says: a letter for no_call, expired, interrupted and env_error, each k (with its return), z (as 0) or o (left out)', max_length=4),
        ),
        migrations.AddField(
            model_name='taskstatistics',
            name='env_error',
            field=models.PositiveIntegerField(db_default=0, default=0, help_text='With failed setups'),
        ),
        migrations.AddField(
            model_name='taskstatistics',
            name='expired',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='taskstatistics',
            name='interrupted',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='taskstatistics',
            name='no_call',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name='taskstatistics',
            name='rate',
            field=models.FloatField(help_text='successes by attempts, 0 to 1; 0 without attempts'),
        ),
    ]
