"""Numbers that trainers report by training step, in chunks with summaries of them."""


import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('episodes', '0061_totals_of_runs'),
    ]

    operations = [
        migrations.CreateModel(
            name='ScalarSeries',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('points', models.PositiveBigIntegerField(default=0, help_text='Number of steps with a value')),
                ('gaps', models.PositiveBigIntegerField(default=0, help_text='Those whose value is not finite')),
                ('last_step', models.BigIntegerField(default=0)),
                ('last', models.FloatField(help_text='Value at the last step; empty if not finite', null=True)),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='scalars', to='episodes.run')),
            ],
            options={
                'verbose_name_plural': 'scalar series',
            },
        ),
        migrations.CreateModel(
            name='ScalarChunk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.BigIntegerField(help_text='First step')),
                ('end', models.BigIntegerField(help_text='Last step')),
                ('numbers', models.PositiveIntegerField(help_text='Points whose value is finite')),
                ('gaps', models.PositiveIntegerField(help_text='Points whose value is not finite')),
                ('low', models.FloatField(help_text='Least of the finite values; 0 without any')),
                ('mean', models.FloatField()),
                ('high', models.FloatField()),
                ('spans', models.BinaryField(help_text='Summaries of 128 points each')),
                ('groups', models.BinaryField(help_text='Summaries of 16 points each')),
                ('values', models.BinaryField(help_text='Step and value of each point')),
                ('series', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='chunks', to='episodes.scalarseries')),
            ],
        ),
        migrations.AddConstraint(
            model_name='scalarseries',
            constraint=models.UniqueConstraint(fields=('run', 'name'), name='scalarseries_unique'),
        ),
        migrations.AddConstraint(
            model_name='scalarchunk',
            constraint=models.UniqueConstraint(fields=('series', 'start'), name='scalarchunk_unique'),
        ),
    ]
