"""Secrets of live sessions, encrypted, for those that go on after a restart of the server."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('episodes', '0044_session_snapshots'),
    ]

    operations = [
        migrations.CreateModel(
            name='SessionSecrets',
            fields=[
                ('id', models.BigIntegerField(help_text='Id of the episode', primary_key=True, serialize=False)),
                ('sealed', models.BinaryField(help_text='Encrypted under a key from ORSWEB_SECRETS_KEY_FILE')),
            ],
        ),
        migrations.AlterField(
            model_name='episode',
            name='survival',
            field=models.CharField(blank=True, choices=[('replay', 'its calls are made again'), ('key', 'its calls are made again, with its API key'), ('sealed', 'as the first, with its secrets'), ('secrets', 'ends: secrets'), ('toolset', 'ends: toolset')], help_text='How its session goes on after a restart of the server; null: it ends', max_length=8, null=True),
        ),
    ]
