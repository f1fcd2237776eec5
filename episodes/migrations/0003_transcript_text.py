"""What text search needs: a row per document; its words in a full-text table on SQLite, in a column on PostgreSQL."""

from django.db import migrations, models

ADD = {
    # contentless: the text itself stands in the steps. Words are cut by us and separated by blanks (episodes/terms.py),
    # so they need no rules beyond that. prefix: the shortest beginning that may be asked for
    "sqlite": [
        "CREATE VIRTUAL TABLE episodes_transcriptwords USING fts5(words, content='', tokenize='ascii', prefix='3')"
    ],
    "postgresql": [
        "ALTER TABLE episodes_transcripttext ADD COLUMN words tsvector",
        "CREATE INDEX transcripttext_words ON episodes_transcripttext USING gin (words)",
    ],
}
TAKE_BACK = {
    "sqlite": ["DROP TABLE episodes_transcriptwords"],
    "postgresql": ["ALTER TABLE episodes_transcripttext DROP COLUMN words"],
}


def add_words(apps, schema_editor):
    for statement in ADD[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


def take_words_back(apps, schema_editor):
    for statement in TAKE_BACK[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


class Migration(migrations.Migration):

    dependencies = [
        ('episodes', '0002_facts_for_pages'),
    ]

    operations = [
        migrations.CreateModel(
            name='TranscriptText',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('episode_id', models.BigIntegerField(unique=True)),
            ],
        ),
        migrations.RunPython(add_words, take_words_back),
    ]
