from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0023_fold_specs'),
    ]

    operations = [
        migrations.AddField(
            model_name='split',
            name='is_sealed_for_people',
            field=models.BooleanField(db_default=False, default=False, help_text='Neither do people without the permission to see hidden fields read them, nor what was played there'),
        ),
    ]
