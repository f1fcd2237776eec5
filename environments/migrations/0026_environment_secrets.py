import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('environments', '0025_fold_invisible_characters'),
    ]

    operations = [
        migrations.CreateModel(
            name='EnvironmentSecret',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('sealed', models.BinaryField(help_text="Encrypted under a key that is made of the server's secret key")),
                ('environment', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='secrets', to='environments.environment')),
            ],
            options={
                'verbose_name': 'secret of an environment',
                'verbose_name_plural': 'secrets of environments',
                'constraints': [models.UniqueConstraint(fields=('environment', 'name'), name='secret_name_unique')],
            },
        ),
    ]
