"""Finds what people took out of a split by the hash of its content, when it comes back."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0017_clusters'),
    ]

    operations = [
        migrations.AlterField(
            model_name='splitremoval',
            name='split',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='removals', to='environments.split'),
        ),
        migrations.AddIndex(
            model_name='splitremoval',
            index=models.Index(fields=['split', 'source_hash'], name='splitremoval_hash'),
        ),
    ]
