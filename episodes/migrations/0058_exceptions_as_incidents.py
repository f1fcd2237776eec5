from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('episodes', '0057_incidents_of_left_processes'),
    ]

    operations = [
        migrations.AlterField(
            model_name='incident',
            name='how',
            field=models.CharField(help_text='How the process died, what was held or left, or what was raised', max_length=200),
        ),
        migrations.AlterField(
            model_name='incident',
            name='kind',
            field=models.CharField(choices=[('died', 'server died'), ('held', 'server held'), ('lost', 'worker process'), ('left', 'processes left'), ('code', 'exception')], max_length=4),
        ),
        migrations.AlterField(
            model_name='incident',
            name='others',
            field=models.TextField(blank=True, help_text='What else ran, if the cause is not certain; of an exception, episodes and steps'),
        ),
        migrations.AlterField(
            model_name='incident',
            name='trace',
            field=models.TextField(blank=True, help_text='Stack of the thread, or traceback'),
        ),
    ]
