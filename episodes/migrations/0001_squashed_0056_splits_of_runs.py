"""Makes the tables of episodes, their text search and the groups of people, as the replaced migrations leave them.

Databases have its name on record, so it keeps that, although it replaces later ones too.
"""

import django.db.models.deletion
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.db import migrations, models

from environments.database.create_models import CreateModels

# Every document has a lexeme for its block of 16,384 episodes (B0, B1, ...; words have no capital letters), with which the
# index itself finds a common word in the newest blocks alone. GIN gives no order, and to read a document for a look at
# its words takes 30 microseconds: so no way but the index, and phrases, which have to be looked at, in some only.
#
# The newest blocks are looked up one by one while all matches are probably more than four times as many as are wanted,
# as a block in the older half and those looked up so far say. Otherwise all matches are read at once. A look for
# beginnings of words costs as much as all of their matches, so it has sixteen blocks.
FIND = """
CREATE FUNCTION
episodes_transcripts_with(wanted tsquery, phrases tsquery, most integer, looked_at integer, newest bigint)
RETURNS SETOF bigint LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_indexscan = off SET work_mem = '64MB' SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    enough bigint := CASE WHEN phrases IS NULL THEN most ELSE looked_at END;
    blocks bigint := newest / 16384 + 1;
    width integer := CASE WHEN wanted::text LIKE '%:*%' THEN 16 ELSE 1 END;
    block bigint := blocks - width;
    sampled bigint;
    found bigint[] := '{}';
BEGIN
    IF newest > 4 * enough THEN -- else all matches are fewer than that
        SELECT COUNT(*) INTO sampled FROM episodes_transcripttext
            WHERE words @@ (wanted && ('B' || blocks / 3)::tsquery);
        LOOP
            found := found || ARRAY(
                SELECT DISTINCT episode_id FROM episodes_transcripttext WHERE words @@ (wanted && (
                    SELECT string_agg('B' || one, ' | ') FROM generate_series(block, block + width - 1) AS one
                )::tsquery) ORDER BY episode_id DESC
            );
            EXIT WHEN cardinality(found) >= enough OR block < 0
                OR GREATEST(sampled, cardinality(found) / (blocks - block)) * blocks <= 4 * enough;
            block := block - width;
        END LOOP;
        found := found[:enough];
    END IF;
    IF enough IS NULL OR cardinality(found) < enough THEN
        found := ARRAY(
            SELECT DISTINCT episode_id FROM episodes_transcripttext WHERE words @@ wanted
            ORDER BY episode_id DESC LIMIT enough
        );
    END IF;
    IF phrases IS NULL THEN
        RETURN QUERY SELECT unnest(found);
    ELSE
        RETURN QUERY SELECT DISTINCT episode_id FROM episodes_transcripttext
            WHERE episode_id = ANY (found) AND words @@ phrases ORDER BY episode_id DESC LIMIT most;
    END IF;
END
$$
"""
CREATE = {
    # contentless: the text itself stands in the steps. Words are cut by us and separated by blanks (episodes/terms.py),
    # so they need no rules beyond that. prefix: the shortest beginning that may be asked for
    "sqlite": [
        f"CREATE VIRTUAL TABLE episodes_{kind}words USING fts5(words, content='', tokenize='ascii', prefix='3')"
        for kind in ("transcript", "rollout")
    ],
    "postgresql": [
        "ALTER TABLE episodes_transcripttext ADD COLUMN words tsvector",
        "CREATE INDEX transcripttext_words ON episodes_transcripttext USING gin (words)",
        FIND,
        "ALTER TABLE episodes_rollouttext ADD COLUMN words tsvector",
        "CREATE INDEX rollouttext_words ON episodes_rollouttext USING gin (words)",
        "CREATE SEQUENCE episodes_runchanges",  # episodes/runs/change_counter.py
    ],
}
DROP = {
    "sqlite": ["DROP TABLE episodes_transcriptwords", "DROP TABLE episodes_rolloutwords"],
    "postgresql": ["DROP FUNCTION episodes_transcripts_with", "DROP SEQUENCE episodes_runchanges"],
}

VIEWER = ["episodes.view_episode"]
PLAYER = [
    *VIEWER,
    "episodes.add_play",
    "episodes.add_note",
    "episodes.add_savedview",
    "environments.add_taskflag",
]
CURATOR = [
    *PLAYER,
    "environments.open_admin",
    "environments.view_hidden_fields",
    *(f"environments.{verb}_{model}" for verb in ("view", "change") for model in ("environment", "split", "task")),
    "environments.add_task",
    "environments.delete_split",
    *(f"episodes.{verb}_run" for verb in ("view", "change")),
    *(f"episodes.{verb}_suite" for verb in ("view", "add")),
    "episodes.add_study",
]
OPERATOR = [
    *CURATOR,
    *(f"environments.{verb}_apikey" for verb in ("view", "add", "change")),
    "environments.view_private_environments",
    "environments.view_securityevent",
    "episodes.add_invite",
    "episodes.delete_episode",
    "episodes.delete_suite",
    *(f"episodes.{verb}_redaction" for verb in ("view", "add")),
    "episodes.view_removal",
    "episodes.view_incident",
    "episodes.view_operations",
    *(f"episodes.{verb}_retention" for verb in ("view", "add", "change", "delete")),
]
GROUPS = {"viewer": VIEWER, "player": PLAYER, "curator": CURATOR, "operator": OPERATOR}


def create_search(apps, schema_editor):
    for statement in CREATE[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


def drop_search(apps, schema_editor):
    """Drop what the tables do not take with them."""
    for statement in DROP[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


def make_groups(apps, schema_editor):
    """Make each group once: later changes by an administrator stay, and so does a group that exists already."""
    for label in ("environments", "episodes"):  # Django makes permissions only after all migrations
        app = apps.get_app_config(label)
        app.models_module = True  # what it looks for, and the historical app lacks
        create_permissions(app, apps=apps, verbosity=0, using=schema_editor.connection.alias)
    rows = apps.get_model("auth", "Permission").objects.select_related("content_type")
    permissions = {f"{row.content_type.app_label}.{row.codename}": row for row in rows}
    for name, codes in GROUPS.items():
        group, is_new = apps.get_model("auth", "Group").objects.get_or_create(name=name)
        if is_new:
            group.permissions.set(permissions[code] for code in codes)


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('episodes', '0001_initial'),
        ('episodes', '0002_facts_for_pages'),
        ('episodes', '0003_transcript_text'),
        ('episodes', '0004_play'),
        ('episodes', '0005_run_tasks_and_steps'),
        ('episodes', '0006_step_spans'),
        ('episodes', '0007_endings_without_a_call'),
        ('episodes', '0008_run_descriptions'),
        ('episodes', '0009_reward_components'),
        ('episodes', '0010_environment_revisions'),
        ('episodes', '0011_rollups_by_kind'),
        ('episodes', '0012_step_groups'),
        ('episodes', '0013_rollouts'),
        ('episodes', '0014_rollout_summaries'),
        ('episodes', '0015_models_of_described_runs'),
        ('episodes', '0018_redactions'),
        ('episodes', '0019_incidents'),
        ('episodes', '0020_removal'),
        ('episodes', '0021_models_of_rollouts'),
        ('episodes', '0022_view_operations'),
        ('episodes', '0023_sign_on_accounts'),
        ('episodes', '0024_environments_of_rollouts'),
        ('episodes', '0025_parts_of_documents'),
        ('episodes', '0026_calls_and_scatter'),
        ('episodes', '0027_suites'),
        ('episodes', '0028_curators_publish_suites'),
        ('episodes', '0029_group_deviations'),
        ('episodes', '0030_rollups_by_environment'),
        ('episodes', '0031_studies'),
        ('episodes', '0032_curators_make_studies'),
        ('episodes', '0033_first_attempts'),
        ('episodes', '0034_statistics_without_people'),
        ('episodes', '0035_pauses_in_studies'),
        ('episodes', '0036_time_limits_of_studies'),
        ('episodes', '0037_survival'),
        ('episodes', '0038_seen_tasks'),
        ('episodes', '0039_repeats_of_earlier_plays'),
        ('episodes', '0040_incidents_of_workers'),
        ('episodes', '0041_rollups_without_people'),
        ('episodes', '0042_run_changes'),
        ('episodes', '0043_search_by_frequency'),
        ('episodes', '0044_session_snapshots'),
        ('episodes', '0045_session_secrets'),
        ('episodes', '0046_what_counts_in_studies'),
        ('episodes', '0047_paused_since'),
        ('episodes', '0048_joined_rollouts'),
        ('episodes', '0049_episodes_of_keys'),
        ('episodes', '0050_has_components'),
        ('episodes', '0051_key_of_large_blobs'),
        ('episodes', '0052_outcomes_of_studies'),
        ('episodes', '0053_excluded_people'),
        ('episodes', '0054_runs_are_executions'),
        ('episodes', '0055_rounded_success'),
        ('episodes', '0056_splits_of_runs'),
        ('episodes', '0057_incidents_of_left_processes'),
        ('episodes', '0058_exceptions_as_incidents'),
        ('episodes', '0059_suites_of_studies'),
        ('episodes', '0060_numberless_attempts'),
    ]

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('contenttypes', '0002_remove_content_type_name'),
        ('environments', '0027_numberless_attempts'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name='Blob',
                fields=[
                    ('digest', models.CharField(help_text='blake2b-128, hexadecimal: of the content, or of `data` if it is large', max_length=32, primary_key=True, serialize=False)),
                    ('is_compressed', models.BooleanField(default=False, help_text='By zstandard')),
                    ('size_bytes', models.PositiveBigIntegerField(help_text='Before compression')),
                    ('data', models.BinaryField()),
                ],
            ),
            migrations.CreateModel(
                name='Suite',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(help_text='As in addresses: letters, digits, and - _ . inside', max_length=100, unique=True)),
                    ('description', models.TextField(blank=True)),
                    ('author', models.CharField(max_length=150)),
                    ('created', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'ordering': ['name'],
                },
            ),
            migrations.CreateModel(
                name='SuiteVersion',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('suite', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='episodes.suite')),
                    ('number', models.PositiveIntegerField(help_text='From 1 on')),
                    ('score', models.CharField(choices=[('success', 'success rate'), ('return', 'mean return')], help_text='Figure of a task that the score averages', max_length=7)),
                    ('document', models.TextField(help_text='JSON of everything that the hash identifies, exactly as it was hashed')),
                    ('salt', models.CharField(help_text='Random, so that no hash confirms guesses of hidden fields', max_length=32)),
                    ('hash', models.CharField(help_text='sha256 of the document', max_length=64)),
                    ('author', models.CharField(max_length=150)),
                    ('created', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'ordering': ['suite', 'number'],
                    'constraints': [models.UniqueConstraint(fields=('suite', 'number'), name='suiteversion_unique')],
                },
            ),
            migrations.CreateModel(
                name='SuiteMember',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('version', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='members', to='episodes.suiteversion')),
                    ('number', models.PositiveSmallIntegerField(help_text='From 1 on, in the order of the version')),
                    ('environment', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='environments.environment')),
                    ('split', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='environments.split')),
                    ('split_name', models.CharField(help_text='Its name when the version was made', max_length=200)),
                    ('split_version', models.PositiveBigIntegerField(help_text='Version of the split whose tasks these are')),
                    ('return_name', models.CharField(help_text='Definition of return', max_length=8)),
                    ('threshold', models.FloatField(help_text='A return above it is a success')),
                    ('convention', models.CharField(help_text='How rollouts count, as in Environment.convention', max_length=4)),
                    ('weight', models.FloatField(help_text='Above 0; the score divides by the sum of all weights')),
                    ('tasks_count', models.PositiveIntegerField()),
                    ('tasks_hash', models.CharField(help_text="Of the salt and the tasks' content hashes, by sha256", max_length=64)),
                ],
                options={
                    'ordering': ['version', 'number'],
                    'constraints': [models.UniqueConstraint(fields=('version', 'number'), name='suitemember_unique')],
                },
            ),
            migrations.CreateModel(
                name='Study',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(help_text='As in addresses: letters, digits, and - _ . inside', max_length=100, unique=True)),
                    ('environment', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='studies', to='environments.environment')),
                    ('member', models.ForeignKey(help_text='Whose tasks the study has', on_delete=django.db.models.deletion.PROTECT, related_name='studies', to='episodes.suitemember')),
                    ('is_shuffled', models.BooleanField(default=False, help_text='Every person gets an order of their own')),
                    ('people_per_task', models.PositiveIntegerField(blank=True, help_text='Tasks are dealt out until each has so many people; empty: everybody gets all', null=True)),
                    ('tasks_per_person', models.PositiveIntegerField(blank=True, help_text='Most tasks that one person gets; empty: no limit', null=True)),
                    ('attempts', models.PositiveSmallIntegerField(default=1, help_text='Attempts that a person has at each task')),
                    ('is_blind', models.BooleanField(default=False, help_text='Rewards stay hidden until an episode ends')),
                    ('instructions', models.TextField(blank=True, help_text='Markdown, shown before the first task')),
                    ('consent', models.TextField(blank=True, help_text='Markdown, to which people agree before the first task')),
                    ('least_finished', models.PositiveIntegerField(blank=True, help_text='Tasks that a person has to finish to complete it; empty: all that they get', null=True)),
                    ('completion', models.TextField(blank=True, help_text='Markdown, shown to who completed it')),
                    ('completion_code', models.CharField(blank=True, help_text='Shown to who completed it', max_length=100)),
                    ('incomplete_code', models.CharField(blank=True, help_text='Shown to who finished fewer tasks', max_length=100)),
                    ('no_task_code', models.CharField(blank=True, help_text='Shown to who came when no task was left', max_length=100)),
                    ('limit_seconds', models.PositiveIntegerField(blank=True, help_text='Time for each task, without pauses; then its episode ends. Empty: no limit', null=True)),
                    ('pause_seconds', models.PositiveIntegerField(default=3600, help_text='How long the clock of a task may stand still in all, and its episode is kept')),
                    ('counts_left', models.BooleanField(default=False, help_text='Attempts that people left or gave up count in the results of the study')),
                    ('author', models.CharField(max_length=150)),
                    ('created', models.DateTimeField(auto_now_add=True)),
                    ('closed', models.DateTimeField(blank=True, help_text='When its links were revoked for good', null=True)),
                    ('suite', models.ForeignKey(blank=True, db_index=False, help_text='That was published for it, and is hidden as long as it is; empty: it has tasks of another suite', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='episodes.suite')),
                ],
                options={
                    'verbose_name_plural': 'studies',
                    'ordering': ['-id'],
                },
            ),
            migrations.CreateModel(
                name='Invite',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('token_hash', models.CharField(help_text="sha256 of the link's secret, which is not kept", max_length=64, unique=True)),
                    ('name', models.CharField(help_text='Whom or what it is for', max_length=100)),
                    ('environment', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='invites', to='environments.environment')),
                    ('split', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='invites', to='environments.split')),
                    ('is_blind', models.BooleanField(default=False, help_text='Rewards stay hidden until the end')),
                    ('study', models.ForeignKey(blank=True, help_text='If it is for one', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='invites', to='episodes.study')),
                    ('is_personal', models.BooleanField(default=False, help_text='Everyone who opens the link is the same guest, whose name is that of the invite')),
                    ('author', models.CharField(max_length=150)),
                    ('created', models.DateTimeField(auto_now_add=True)),
                    ('expires', models.DateTimeField()),
                    ('revoked', models.DateTimeField(blank=True, null=True)),
                ],
                options={
                    'ordering': ['-id'],
                },
            ),
            migrations.CreateModel(
                name='Guest',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('invite', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='guests', to='episodes.invite')),
                    ('name', models.CharField(help_text='As they call themselves', max_length=60)),
                    ('created', models.DateTimeField(auto_now_add=True)),
                    ('consented', models.DateTimeField(blank=True, help_text='When they started the study of the invite', null=True)),
                    ('excluded', models.DateTimeField(blank=True, help_text='Since when no figure counts what they play in their study', null=True)),
                    ('exclusion', models.CharField(blank=True, help_text='Why, and by whom', max_length=300)),
                ],
            ),
            migrations.CreateModel(
                name='EnvironmentRevision',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('environment', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='revisions', to='environments.environment')),
                    ('code', models.CharField(help_text='Digest of the class, its source files and the versions', max_length=32)),
                    ('digest', models.CharField(help_text='Digest of everything', max_length=32)),
                    ('source_hash', models.CharField(blank=True, help_text="SHA-256 of the class's source files", max_length=64)),
                    ('git_commit', models.CharField(blank=True, max_length=64)),
                    ('is_dirty', models.BooleanField(default=False, help_text='Whether a source file differs from the commit')),
                    ('versions', models.TextField(help_text='JSON object: SDK and named packages with their versions')),
                    ('first_episode', models.BigIntegerField(help_text='Id of the first episode that was played by it')),
                    ('created', models.DateTimeField()),
                ],
                options={
                    'ordering': ['id'],
                    'indexes': [models.Index(fields=['environment', 'id'], name='revision_environment')],
                },
            ),
            migrations.CreateModel(
                name='Run',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=200, unique=True)),
                    ('title', models.CharField(blank=True, help_text='As clients say it; the name of the second run with this title ends with (2)', max_length=200)),
                    ('number', models.PositiveIntegerField(default=1, help_text='1 for the first run of its title')),
                    ('own_id', models.CharField(blank=True, help_text='Id that its client gave it, among the runs of its title', max_length=200)),
                    ('model', models.CharField(blank=True, help_text='As the trainer says; else the first model named by one of its episodes', max_length=200)),
                    ('created', models.DateTimeField()),
                    ('key_label', models.CharField(blank=True, help_text='Key that created it before its first episode', max_length=200)),
                    ('step', models.BigIntegerField(blank=True, help_text='Current training step, given to episodes that name none', null=True)),
                    ('state', models.CharField(blank=True, choices=[('running', 'running'), ('ended', 'ended'), ('failed', 'failed')], max_length=8)),
                    ('config', models.TextField(blank=True, help_text='A JSON object')),
                    ('git_commit', models.CharField(blank=True, max_length=100)),
                    ('notes', models.TextField(blank=True)),
                    ('updated', models.DateTimeField(blank=True, help_text='Last time a trainer described it', null=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['title', 'number'], name='run_title')],
                    'constraints': [models.UniqueConstraint(condition=models.Q(('own_id', ''), _negated=True), fields=('title', 'own_id'), name='run_own_id')],
                },
            ),
            migrations.CreateModel(
                name='Episode',
                fields=[
                    ('id', models.BigAutoField(primary_key=True, serialize=False)),
                    ('environment', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='episodes', to='environments.environment')),
                    ('split', models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='As the client named it; else the one that held the task when the episode began', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='episodes', to='environments.split')),
                    ('task_index', models.BigIntegerField(blank=True, help_text='Only when the client named a split', null=True)),
                    ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='episodes', to='environments.task')),
                    ('session_id', models.CharField(max_length=512)),
                    ('user_agent', models.CharField(blank=True, max_length=300)),
                    ('key_label', models.CharField(blank=True, max_length=200)),
                    ('player', models.CharField(choices=[('agent', 'agent'), ('human', 'human'), ('script', 'script')], default='agent', max_length=6)),
                    ('revision', models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='Code of the environment; null: unknown', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='episodes', to='episodes.environmentrevision')),
                    ('run', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='episodes', to='episodes.run')),
                    ('run_step', models.BigIntegerField(blank=True, help_text='Training step of the run', null=True)),
                    ('model', models.CharField(blank=True, max_length=200)),
                    ('labels', models.TextField(blank=True, help_text='Further orsweb_ values, a JSON object')),
                    ('prompt', models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='As the agent got it', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='episodes.blob')),
                    ('tools', models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='As the agent got them', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='episodes.blob')),
                    ('survival', models.CharField(blank=True, choices=[('replay', 'its calls are made again'), ('key', 'its calls are made again, with its API key'), ('sealed', 'as the first, with its secrets'), ('secrets', 'ends: secrets'), ('toolset', 'ends: toolset')], help_text='How its session goes on after a restart of the server; null: it ends', max_length=8, null=True)),
                    ('status', models.CharField(choices=[('running', 'running'), ('ended', 'ended')], default='running', max_length=8)),
                    ('cause', models.CharField(blank=True, choices=[('finished', 'finished'), ('abandoned', 'abandoned'), ('expired', 'expired'), ('setup_failed', 'setup failed'), ('env_error', 'environment error'), ('interrupted', 'interrupted'), ('no_call', 'no call')], max_length=12)),
                    ('detail', models.TextField(blank=True, help_text='Why it ended, in words')),
                    ('is_probe', models.BooleanField(default=False, help_text="Ended without a tool call and isn't an attempt")),
                    ('steps_count', models.PositiveIntegerField(default=0, help_text='Steps that ran; refused ones are not counted')),
                    ('failed_count', models.PositiveIntegerField(default=0, help_text='Of those that ran, how many failed')),
                    ('refused_count', models.PositiveIntegerField(default=0)),
                    ('return_sum', models.FloatField(default=0.0)),
                    ('return_last', models.FloatField(blank=True, help_text='Last non-null reward', null=True)),
                    ('return_max', models.FloatField(blank=True, null=True)),
                    ('return_mean', models.FloatField(blank=True, null=True)),
                    ('created', models.DateTimeField()),
                    ('ready', models.DateTimeField(blank=True, null=True)),
                    ('first_acted', models.DateTimeField(blank=True, null=True)),
                    ('last_acted', models.DateTimeField(blank=True, null=True)),
                    ('ended', models.DateTimeField(blank=True, null=True)),
                    ('duration_seconds', models.FloatField(blank=True, help_text='From ready to the last answer; null without calls', null=True)),
                    ('end_number', models.BigIntegerField(blank=True, help_text='Rises by one with every ending of this database, in the order of their commits', null=True)),
                    ('has_components', models.BooleanField(blank=True, help_text='Whether an output may report components of a reward; null: not known without reading them', null=True)),
                ],
                options={
                    'ordering': ['-id'],
                    'indexes': [models.Index(fields=['session_id'], name='episode_session'), models.Index(fields=['environment', 'id'], name='episode_environment'), models.Index(condition=models.Q(('run__isnull', False)), fields=['run', 'id'], name='episode_run'), models.Index(condition=models.Q(('run__isnull', False), ('run_step__isnull', False)), fields=['run', 'run_step', 'id'], name='episode_run_step'), models.Index(condition=models.Q(('run__isnull', False), ('split__isnull', False)), fields=['run', 'split', 'id'], name='episode_run_split'), models.Index(fields=['task', 'id'], name='episode_task'), models.Index(condition=models.Q(('split__isnull', False)), fields=['split', 'id'], name='episode_split'), models.Index(condition=models.Q(('revision__isnull', False)), fields=['revision', 'id'], name='episode_revision'), models.Index(fields=['created', 'id'], name='episode_created'), models.Index(condition=models.Q(('model', ''), _negated=True), fields=['model', 'id'], name='episode_model'), models.Index(condition=models.Q(('key_label', ''), _negated=True), fields=['key_label', 'id'], name='episode_key'), models.Index(condition=models.Q(('player', 'agent'), _negated=True), fields=['player', 'id'], name='episode_player'), models.Index(condition=models.Q(('status', 'ended')), fields=['cause', 'is_probe', 'id'], name='episode_cause'), models.Index(condition=models.Q(('refused_count__gt', 0), ('failed_count__gt', 0), _connector='OR'), fields=['id'], name='episode_error'), models.Index(condition=models.Q(('status', 'ended')), fields=['return_sum', 'id'], name='episode_return_sum'), models.Index(condition=models.Q(('status', 'ended')), fields=['return_last', 'id'], name='episode_return_last'), models.Index(condition=models.Q(('status', 'ended')), fields=['return_max', 'id'], name='episode_return_max'), models.Index(condition=models.Q(('status', 'ended')), fields=['return_mean', 'id'], name='episode_return_mean'), models.Index(condition=models.Q(('status', 'ended')), fields=['steps_count', 'id'], name='episode_steps'), models.Index(condition=models.Q(('status', 'ended')), fields=['duration_seconds', 'id'], name='episode_duration'), models.Index(condition=models.Q(('status', 'ended')), fields=['end_number'], name='episode_end'), models.Index(condition=models.Q(('status', 'ended')), fields=['environment', 'end_number'], name='episode_environment_end'), models.Index(condition=models.Q(('status', 'ended'), ('split__isnull', False)), fields=['split', 'end_number'], name='episode_split_end'), models.Index(condition=models.Q(('status', 'ended'), ('run__isnull', False)), fields=['run', 'end_number'], name='episode_run_end'), models.Index(condition=models.Q(('status', 'running')), fields=['id'], name='episode_running')],
                },
            ),
            migrations.CreateModel(
                name='Play',
                fields=[
                    ('episode', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='play', serialize=False, to='episodes.episode')),
                    ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='plays', to=settings.AUTH_USER_MODEL)),
                    ('guest', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='plays', to='episodes.guest')),
                    ('is_blind', models.BooleanField(default=False, help_text='The player sees rewards only at the end')),
                    ('paused_seconds', models.FloatField(default=0.0, help_text='Time for which the player was away, in a study')),
                    ('paused_since', models.DateTimeField(blank=True, help_text="Since when a study's clock stands still, because no page is open; null: it runs", null=True)),
                    ('is_repeat', models.BooleanField(default=False, help_text="The player had played the task before, or had seen it, so it isn't their first attempt")),
                    ('counts_left', models.BooleanField(blank=True, help_text='In a study, whether it counts if its player leaves it; null: in no study', null=True)),
                    ('is_excluded', models.BooleanField(default=False, help_text='The player was excluded from their study, so no figure counts it')),
                    ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='continuations', to='episodes.episode')),
                    ('parent_step', models.PositiveIntegerField(blank=True, help_text='Last of its steps that was run again', null=True)),
                    ('differs_at', models.PositiveIntegerField(blank=True, help_text="First of those whose output or reward was another than the parent's", null=True)),
                ],
            ),
            migrations.CreateModel(
                name='SeenTask',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='seen_tasks', to=settings.AUTH_USER_MODEL)),
                    ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='environments.task')),
                    ('created', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('user', 'task'), name='seentask_unique')],
                },
            ),
            migrations.CreateModel(
                name='Note',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notes', to='episodes.episode')),
                    ('step', models.PositiveIntegerField(blank=True, help_text='Index of the step; null: the whole episode', null=True)),
                    ('author', models.CharField(max_length=200)),
                    ('text', models.TextField()),
                    ('created', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'ordering': ['id'],
                },
            ),
            migrations.CreateModel(
                name='Redaction',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('author', models.CharField(help_text='User name, or the name of the command', max_length=150)),
                    ('reason', models.CharField(blank=True, max_length=300)),
                    ('created', models.DateTimeField(auto_now_add=True)),
                    ('finished', models.DateTimeField(blank=True, help_text='Empty: it is running or was stopped', null=True)),
                    ('rows', models.PositiveIntegerField(default=0, help_text='Number of rows in which the text stood')),
                ],
                options={
                    'ordering': ['-id'],
                },
            ),
            migrations.CreateModel(
                name='RedactedEpisode',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('redaction', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='episodes', to='episodes.redaction')),
                    ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='redactions', to='episodes.episode')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('redaction', 'episode'), name='redactedepisode_unique')],
                },
            ),
            migrations.CreateModel(
                name='SignOnAccount',
                fields=[
                    ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='sign_on', serialize=False, to=settings.AUTH_USER_MODEL)),
                    ('issuer', models.CharField(max_length=400)),
                    ('subject', models.CharField(help_text='Unique and never used again, as its issuer promises', max_length=255)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('issuer', 'subject'), name='signonaccount_unique')],
                },
            ),
            migrations.CreateModel(
                name='RunTag',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='tags', to='episodes.run')),
                    ('name', models.CharField(max_length=50)),
                ],
                options={
                    'ordering': ['id'],
                    'indexes': [models.Index(fields=['name', 'run'], name='runtag_name')],
                    'constraints': [models.UniqueConstraint(fields=('run', 'name'), name='runtag_unique')],
                },
            ),
            migrations.CreateModel(
                name='Step',
                fields=[
                    ('id', models.BigAutoField(primary_key=True, serialize=False)),
                    ('episode', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='episodes.episode')),
                    ('index', models.PositiveIntegerField(help_text='0-based, in order of completion')),
                    ('tool', models.CharField(max_length=200)),
                    ('input', models.TextField(blank=True, help_text='Exact JSON text; empty when it is in input_blob')),
                    ('input_blob', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='episodes.blob')),
                    ('output', models.TextField(blank=True, help_text="The ToolOutput's JSON; empty unless ok, or when in output_blob")),
                    ('output_blob', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='episodes.blob')),
                    ('reward', models.FloatField(blank=True, null=True)),
                    ('finished', models.BooleanField(default=False)),
                    ('status', models.CharField(choices=[('ok', 'ok'), ('refused', 'refused'), ('failed', 'failed')], max_length=8)),
                    ('error', models.TextField(blank=True)),
                    ('reason', models.CharField(blank=True, max_length=40)),
                    ('task_id', models.CharField(help_text='Id under which the client can fetch the result again', max_length=300)),
                    ('started', models.DateTimeField()),
                    ('duration_ms', models.FloatField()),
                    ('waited_ms', models.FloatField(default=0.0, help_text='Queued behind other calls of the session')),
                ],
                options={
                    'ordering': ['episode', 'index'],
                    'indexes': [models.Index(condition=models.Q(('input_blob__isnull', False)), fields=['input_blob'], name='step_input_blob'), models.Index(condition=models.Q(('output_blob__isnull', False)), fields=['output_blob'], name='step_output_blob')],
                    'constraints': [models.UniqueConstraint(fields=('episode', 'index'), name='step_index_unique'), models.UniqueConstraint(fields=('episode', 'task_id'), name='step_task_id_unique')],
                },
            ),
            migrations.CreateModel(
                name='SavedView',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=100, unique=True)),
                    ('query', models.TextField(help_text='Of the Episodes page, as in its address')),
                    ('author', models.CharField(max_length=150)),
                    ('created', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'ordering': ['name'],
                },
            ),
            migrations.CreateModel(
                name='Incident',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('kind', models.CharField(choices=[('died', 'server died'), ('held', 'server held'), ('lost', 'worker process'), ('left', 'processes left'), ('code', 'exception')], max_length=4)),
                    ('happened', models.DateTimeField(help_text='Of several holds, the latest')),
                    ('how', models.CharField(help_text='How the process died, what was held or left, or what was raised', max_length=200)),
                    ('seconds', models.FloatField(default=0.0, help_text='How long the server was held; of several holds, the longest')),
                    ('count', models.PositiveIntegerField(default=1)),
                    ('environment', models.ForeignKey(blank=True, help_text='Empty: unknown', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='incidents', to='environments.environment')),
                    ('call', models.CharField(blank=True, help_text='The tool, or what else of the environment ran', max_length=100)),
                    ('episode', models.BigIntegerField(blank=True, help_text='Id of the episode, which may have been deleted', null=True)),
                    ('input_hash', models.CharField(blank=True, help_text='BLAKE2b-128 of the recorded input', max_length=32)),
                    ('since', models.DateTimeField(blank=True, help_text='When the call began', null=True)),
                    ('is_certain', models.BooleanField(default=False, help_text='Whether this call is known to have caused it')),
                    ('has_disabled', models.BooleanField(default=False, help_text='Whether the environment was disabled because of it')),
                    ('others', models.TextField(blank=True, help_text='What else ran, if the cause is not certain; of an exception, episodes and steps')),
                    ('trace', models.TextField(blank=True, help_text='Stack of the thread, or traceback')),
                ],
                options={
                    'ordering': ['-pk'],
                    'permissions': [('view_operations', 'Can view operations')],
                    'indexes': [models.Index(fields=['environment', 'kind', 'id'], name='incident_environment')],
                },
            ),
            migrations.CreateModel(
                name='Removal',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('author', models.CharField(help_text='"retention" for those that a retention period removed', max_length=150)),
                    ('reason', models.TextField(blank=True)),
                    ('query', models.TextField(blank=True, help_text='The filter of the episodes, as in the address of a page')),
                    ('episodes', models.PositiveBigIntegerField(default=0, help_text='Removed so far')),
                    ('steps', models.PositiveBigIntegerField(default=0)),
                    ('last_episode', models.BigIntegerField(default=0, help_text='Highest id of them, which is never used again')),
                    ('created', models.DateTimeField(auto_now_add=True)),
                    ('updated', models.DateTimeField(auto_now=True, help_text='When the last of its episodes was removed')),
                    ('ended', models.DateTimeField(blank=True, help_text='Empty while it runs, or if it was stopped', null=True)),
                ],
                options={
                    'ordering': ['-id'],
                },
            ),
            migrations.CreateModel(
                name='Retention',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('environment', models.OneToOneField(blank=True, help_text='Or choose a run', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='retention', to='environments.environment')),
                    ('run', models.OneToOneField(blank=True, help_text='Or choose an environment', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='retention', to='episodes.run')),
                    ('days', models.PositiveIntegerField(blank=True, help_text='Days after its end at which an episode is removed; empty: never', null=True)),
                ],
                options={
                    'verbose_name': 'retention period',
                    'ordering': ['environment__name', 'run__name'],
                    'constraints': [models.CheckConstraint(condition=models.Q(('environment__isnull', True), ('run__isnull', True), _connector='XOR'), name='retention_of_one')],
                },
            ),
            migrations.CreateModel(
                name='LooseBlob',
                fields=[
                    ('id', models.BigAutoField(primary_key=True, serialize=False)),
                    ('digest', models.CharField(max_length=32)),
                ],
            ),
            migrations.CreateModel(
                name='CurveBlock',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('scope', models.CharField(choices=[('environment', 'environment'), ('split', 'split'), ('run', 'run')], max_length=11)),
                    ('scope_id', models.BigIntegerField()),
                    ('environment_id', models.BigIntegerField(db_default=0, help_text='Environment of all of its episodes')),
                    ('split_id', models.BigIntegerField(db_default=0, help_text='Of a run: split of all of its episodes; 0: none')),
                    ('first_end', models.BigIntegerField(help_text='end_number of its first episode')),
                    ('last_end', models.BigIntegerField(help_text='end_number of its last episode')),
                    ('began', models.DateTimeField(help_text='When the first of its episodes ended')),
                    ('ended', models.DateTimeField(help_text='When the last of its episodes ended')),
                    ('episodes', models.PositiveIntegerField()),
                    ('causes', models.TextField(help_text="JSON object: endings by cause, probes as 'probe'")),
                    ('steps', models.PositiveBigIntegerField(help_text='Of the episodes that finished or were abandoned')),
                    ('return_sum', models.TextField()),
                    ('return_last', models.TextField()),
                    ('return_max', models.TextField()),
                    ('return_mean', models.TextField()),
                    ('length', models.TextField(help_text='Steps of an episode')),
                    ('failed', models.PositiveBigIntegerField(db_default=0, default=0, help_text='Calls of the same episodes that failed')),
                    ('refused', models.PositiveBigIntegerField(db_default=0, default=0, help_text='Calls of the same episodes that were refused')),
                    ('scatter', models.TextField(blank=True, db_default='', help_text='JSON object by definition of return: scatter of its array (`episodes/attempts/sketches.py`)')),
                    ('expired', models.TextField(blank=True, db_default='', help_text='The eight values above of expired episodes, as one array; empty without any')),
                    ('level', models.PositiveSmallIntegerField()),
                    ('number', models.PositiveIntegerField(help_text='0-based within scope and level')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('scope', 'scope_id', 'level', 'number', 'environment_id', 'split_id'), name='curveblock_unique')],
                },
            ),
            migrations.CreateModel(
                name='StepSpan',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('scope', models.CharField(choices=[('environment', 'environment'), ('split', 'split'), ('run', 'run')], max_length=11)),
                    ('scope_id', models.BigIntegerField()),
                    ('environment_id', models.BigIntegerField(db_default=0, help_text='Environment of all of its episodes')),
                    ('split_id', models.BigIntegerField(db_default=0, help_text='Of a run: split of all of its episodes; 0: none')),
                    ('first_end', models.BigIntegerField(help_text='end_number of its first episode')),
                    ('last_end', models.BigIntegerField(help_text='end_number of its last episode')),
                    ('began', models.DateTimeField(help_text='When the first of its episodes ended')),
                    ('ended', models.DateTimeField(help_text='When the last of its episodes ended')),
                    ('episodes', models.PositiveIntegerField()),
                    ('causes', models.TextField(help_text="JSON object: endings by cause, probes as 'probe'")),
                    ('steps', models.PositiveBigIntegerField(help_text='Of the episodes that finished or were abandoned')),
                    ('return_sum', models.TextField()),
                    ('return_last', models.TextField()),
                    ('return_max', models.TextField()),
                    ('return_mean', models.TextField()),
                    ('length', models.TextField(help_text='Steps of an episode')),
                    ('failed', models.PositiveBigIntegerField(db_default=0, default=0, help_text='Calls of the same episodes that failed')),
                    ('refused', models.PositiveBigIntegerField(db_default=0, default=0, help_text='Calls of the same episodes that were refused')),
                    ('scatter', models.TextField(blank=True, db_default='', help_text='JSON object by definition of return: scatter of its array (`episodes/attempts/sketches.py`)')),
                    ('expired', models.TextField(blank=True, db_default='', help_text='The eight values above of expired episodes, as one array; empty without any')),
                    ('width', models.BigIntegerField(help_text='Training steps')),
                    ('number', models.BigIntegerField()),
                    ('step_low', models.BigIntegerField(help_text='Lowest training step of its episodes')),
                    ('step_high', models.BigIntegerField(help_text='Highest training step of its episodes')),
                    ('groups', models.TextField(blank=True, db_default='', help_text='Of a run: JSON object, number of groups by signature (`episodes/attempts/group_states.py`)')),
                    ('deviations', models.TextField(blank=True, db_default='', help_text='Of a run: JSON object by code, sums of the standard deviations within groups by definition of return')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('scope', 'scope_id', 'width', 'number', 'environment_id', 'split_id'), name='stepspan_unique')],
                },
            ),
            migrations.CreateModel(
                name='StepGroup',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('run_id', models.BigIntegerField()),
                    ('run_step', models.BigIntegerField()),
                    ('task_id', models.BigIntegerField()),
                    ('split_id', models.BigIntegerField(db_default=0, help_text='0: none')),
                    ('state', models.TextField(help_text='JSON array, as `episodes/attempts/group_states.py` makes it')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('run_id', 'run_step', 'task_id', 'split_id'), name='stepgroup_unique')],
                },
            ),
            migrations.CreateModel(
                name='Activity',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('period', models.PositiveIntegerField(choices=[(60, 'minute'), (3600, 'hour'), (86400, 'day')], help_text='Seconds')),
                    ('start', models.BigIntegerField(help_text='Seconds since the epoch, a multiple of the period')),
                    ('environment_id', models.BigIntegerField()),
                    ('episodes', models.PositiveIntegerField(default=0)),
                    ('scored', models.PositiveIntegerField(default=0, help_text='Those of them that have a return')),
                    ('successes', models.PositiveIntegerField(default=0)),
                    ('return_total', models.FloatField(default=0.0)),
                    ('expired_scored', models.PositiveIntegerField(db_default=0, default=0)),
                    ('expired_successes', models.PositiveIntegerField(db_default=0, default=0)),
                    ('expired_total', models.FloatField(db_default=0.0, default=0.0)),
                    ('steps', models.PositiveBigIntegerField(default=0)),
                    ('refused', models.PositiveBigIntegerField(default=0)),
                    ('failed', models.PositiveBigIntegerField(default=0)),
                    ('finished', models.PositiveIntegerField(default=0)),
                    ('abandoned', models.PositiveIntegerField(default=0, help_text='Without probes, like `expired`')),
                    ('expired', models.PositiveIntegerField(default=0)),
                    ('setup_failed', models.PositiveIntegerField(default=0)),
                    ('env_error', models.PositiveIntegerField(default=0)),
                    ('interrupted', models.PositiveIntegerField(default=0)),
                    ('no_call', models.PositiveIntegerField(default=0)),
                    ('probes', models.PositiveIntegerField(default=0)),
                    ('numberless', models.PositiveIntegerField(db_default=0, default=0, help_text='Those with a reward that was not a number')),
                    ('expired_numberless', models.PositiveIntegerField(db_default=0, default=0)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('period', 'start', 'environment_id'), name='activity_unique')],
                },
            ),
            migrations.CreateModel(
                name='ToolUse',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('environment_id', models.BigIntegerField()),
                    ('tool', models.CharField(max_length=200)),
                    ('day', models.BigIntegerField(help_text='Seconds since the epoch at which the day begins, UTC')),
                    ('ok', models.PositiveIntegerField(default=0)),
                    ('refused', models.PositiveIntegerField(default=0)),
                    ('failed', models.PositiveIntegerField(default=0)),
                    ('rewarded', models.PositiveIntegerField(default=0, help_text='Calls with a reward other than 0')),
                    ('duration_ms', models.FloatField(default=0.0, help_text='Of all calls that ran together')),
                    ('durations', models.TextField(default='[]', help_text='JSON array: calls that ran by duration; place n is below 2**(n-3) ms, the last all others')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('environment_id', 'tool', 'day'), name='tooluse_unique')],
                },
            ),
            migrations.CreateModel(
                name='RunTask',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('run_id', models.BigIntegerField()),
                    ('task_id', models.BigIntegerField()),
                    ('split_id', models.BigIntegerField(db_default=0, help_text='0: none')),
                    ('kind', models.CharField(db_default='', help_text='Empty for finished and abandoned ones', max_length=12)),
                    ('attempts', models.PositiveIntegerField(default=0, help_text='Rollouts')),
                    ('scored_sum', models.PositiveIntegerField(default=0)),
                    ('scored_last', models.PositiveIntegerField(default=0)),
                    ('scored_max', models.PositiveIntegerField(default=0)),
                    ('scored_mean', models.PositiveIntegerField(default=0)),
                    ('total_sum', models.FloatField(default=0.0)),
                    ('total_last', models.FloatField(default=0.0)),
                    ('total_max', models.FloatField(default=0.0)),
                    ('total_mean', models.FloatField(default=0.0)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('run_id', 'task_id', 'split_id', 'kind'), name='runtask_unique')],
                },
            ),
            migrations.CreateModel(
                name='RewardComponent',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('environment_id', models.BigIntegerField()),
                    ('name', models.CharField(max_length=80)),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('environment_id', 'name'), name='rewardcomponent_unique')],
                },
            ),
            migrations.CreateModel(
                name='EpisodeComponent',
                fields=[
                    ('id', models.BigAutoField(primary_key=True, serialize=False)),
                    ('episode', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='components', to='episodes.episode')),
                    ('component', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='values', to='episodes.rewardcomponent')),
                    ('value_sum', models.FloatField()),
                    ('value_last', models.FloatField()),
                    ('value_max', models.FloatField()),
                    ('value_mean', models.FloatField()),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('episode', 'component'), name='episodecomponent_unique')],
                },
            ),
            migrations.CreateModel(
                name='TranscriptText',
                fields=[
                    ('id', models.BigAutoField(primary_key=True, serialize=False)),
                    ('part', models.PositiveSmallIntegerField(db_default=0, default=0, help_text='0-based number of the part')),
                    ('is_cut', models.BooleanField(db_default=False, default=False, help_text='Whether some of the document is not indexed, as it is too long')),
                    ('episode_id', models.BigIntegerField()),
                ],
                options={
                    'indexes': [models.Index(condition=models.Q(('is_cut', True), ('part', 0)), fields=['episode_id'], name='transcripttext_cut'), models.Index(condition=models.Q(('part', 1)), fields=['episode_id'], name='transcripttext_long')],
                    'constraints': [models.UniqueConstraint(fields=('episode_id', 'part'), name='transcripttext_unique')],
                },
            ),
            migrations.CreateModel(
                name='Progress',
                fields=[
                    ('name', models.CharField(max_length=40, primary_key=True, serialize=False)),
                    ('end_number', models.BigIntegerField(default=0)),
                    ('removals', models.PositiveBigIntegerField(db_default=0, default=0, help_text='Rises when episodes are removed; what was read before is then read again')),
                ],
            ),
            migrations.CreateModel(
                name='Rollout',
                fields=[
                    ('id', models.BigAutoField(primary_key=True, serialize=False)),
                    ('key_label', models.CharField(blank=True, help_text='API key of its client; ids are unique per key', max_length=200)),
                    ('event_id', models.CharField(help_text='The id that the client gave it', max_length=200)),
                    ('is_announced', models.BooleanField(default=False, help_text='No: only messages or updates of it have arrived')),
                    ('run', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='rollouts', to='episodes.run')),
                    ('run_step', models.BigIntegerField(blank=True, help_text='Training step of the run', null=True)),
                    ('name', models.CharField(blank=True, max_length=300)),
                    ('environment', models.CharField(blank=True, help_text='As the client names it', max_length=300)),
                    ('environment_name', models.CharField(blank=True, help_text='Last part of its name in lower case, as episodes have it', max_length=200)),
                    ('hosted_environment', models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='The one of that name, if its key could use it; empty: played elsewhere, as far as this server knows', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='rollouts', to='environments.environment')),
                    ('variant', models.CharField(blank=True, max_length=200)),
                    ('split', models.CharField(blank=True, max_length=200)),
                    ('task_index', models.BigIntegerField(blank=True, null=True)),
                    ('model', models.CharField(blank=True, help_text='As the client names it, or else that of its episode unless it is a guess', max_length=200)),
                    ('model_params', models.BigIntegerField(blank=True, help_text='Number of parameters', null=True)),
                    ('training_stage', models.CharField(blank=True, max_length=20)),
                    ('event', models.TextField(blank=True, help_text='The event that announced it, as JSON; empty if in event_blob')),
                    ('event_blob', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='episodes.blob')),
                    ('info', models.TextField(blank=True, help_text="rollout_info as JSON: each key's latest [time in ms, value]")),
                    ('sent_ms', models.BigIntegerField(blank=True, help_text="When it started, by the client's clock", null=True)),
                    ('received', models.DateTimeField(help_text="When its first event arrived, by this server's clock")),
                    ('problem', models.CharField(blank=True, help_text='What is wrong with what the client sent', max_length=300)),
                    ('is_summarised', models.BooleanField(db_default=False, default=False, help_text='No: something has arrived since')),
                    ('episode', models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='As joined', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='rollouts', to='episodes.episode')),
                    ('joined_by', models.CharField(blank=True, choices=[('session', 'session'), ('call', 'call'), ('calls', 'calls'), ('guess', 'guess')], db_default='', max_length=7)),
                    ('messages_count', models.BigIntegerField(db_default=0, default=0)),
                    ('reward', models.FloatField(blank=True, help_text='The last reward of a message', null=True)),
                    ('is_finished', models.BooleanField(db_default=False, default=False, help_text='Whether a message says so')),
                    ('input_tokens', models.BigIntegerField(blank=True, help_text="As reported; empty if the client didn't", null=True)),
                    ('output_tokens', models.BigIntegerField(blank=True, help_text='Includes those of reasoning', null=True)),
                    ('reasoning_tokens', models.BigIntegerField(blank=True, null=True)),
                    ('cached_tokens', models.BigIntegerField(blank=True, help_text='Of the input', null=True)),
                    ('cost', models.FloatField(blank=True, help_text="As reported, in the client's currency, usually USD", null=True)),
                ],
                options={
                    'ordering': ['-id'],
                    'indexes': [models.Index(condition=models.Q(('run__isnull', False)), fields=['run', 'id'], name='rollout_run'), models.Index(fields=['event_id'], name='rollout_event'), models.Index(fields=['environment_name', 'received'], name='rollout_environment'), models.Index(fields=['environment_name', 'id'], name='rollout_environment_id'), models.Index(condition=models.Q(('hosted_environment__isnull', False)), fields=['hosted_environment'], name='rollout_hosted'), models.Index(fields=['model', 'id'], name='rollout_model'), models.Index(condition=models.Q(('episode__isnull', False)), fields=['episode'], name='rollout_episode'), models.Index(condition=models.Q(('episode__isnull', True)), fields=['id'], name='rollout_alone'), models.Index(condition=models.Q(('episode__isnull', False), models.Q(('joined_by', 'guess'), _negated=True)), fields=['id'], name='rollout_joined'), models.Index(condition=models.Q(('episode__isnull', False), ('joined_by', 'guess')), fields=['id'], name='rollout_guess'), models.Index(condition=models.Q(('is_summarised', False)), fields=['id'], name='rollout_unsummarised'), models.Index(condition=models.Q(('event_blob__isnull', False)), fields=['event_blob'], name='rollout_event_blob')],
                    'constraints': [models.UniqueConstraint(fields=('key_label', 'event_id'), name='rollout_event_unique')],
                },
            ),
            migrations.CreateModel(
                name='RolloutText',
                fields=[
                    ('id', models.BigAutoField(primary_key=True, serialize=False)),
                    ('part', models.PositiveSmallIntegerField(db_default=0, default=0, help_text='0-based number of the part')),
                    ('is_cut', models.BooleanField(db_default=False, default=False, help_text='Whether some of the document is not indexed, as it is too long')),
                    ('rollout_id', models.BigIntegerField()),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('rollout_id', 'part'), name='rollouttext_unique')],
                },
            ),
            migrations.CreateModel(
                name='RolloutScan',
                fields=[
                    ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                    ('message', models.BigIntegerField(default=0, help_text='Id of the last message')),
                ],
            ),
            migrations.CreateModel(
                name='RolloutMessage',
                fields=[
                    ('id', models.BigAutoField(primary_key=True, serialize=False)),
                    ('rollout', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='episodes.rollout')),
                    ('index', models.BigIntegerField(help_text='Position in the rollout; -1 if the client sent none that can be used')),
                    ('event_id', models.CharField(max_length=64)),
                    ('kind', models.CharField(help_text='The type that the client sent, such as tool_call', max_length=40)),
                    ('name', models.CharField(blank=True, help_text='Of the tool, for a tool_call', max_length=200)),
                    ('call_id', models.CharField(blank=True, help_text='Joins a tool_call to its tool_result', max_length=200)),
                    ('content', models.TextField(blank=True, help_text='Empty if in content_blob')),
                    ('content_blob', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='episodes.blob')),
                    ('summary', models.TextField(blank=True, help_text='Of reasoning; empty if in summary_blob')),
                    ('summary_blob', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='episodes.blob')),
                    ('extra', models.TextField(blank=True, help_text='Metadata and all other fields as JSON; empty if none')),
                    ('extra_blob', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='episodes.blob')),
                    ('reward', models.FloatField(blank=True, null=True)),
                    ('is_finished', models.BooleanField(default=False)),
                    ('response_characters', models.BigIntegerField(default=0, help_text='Generated by the model; 0 of other messages')),
                    ('sent_ms', models.BigIntegerField(blank=True, help_text="By the client's clock", null=True)),
                    ('received', models.DateTimeField(help_text="By this server's clock")),
                    ('problem', models.CharField(blank=True, help_text='What is wrong with what the client sent', max_length=300)),
                ],
                options={
                    'ordering': ['rollout', 'index', 'id'],
                    'indexes': [models.Index(condition=models.Q(('content_blob__isnull', False)), fields=['content_blob'], name='message_content_blob'), models.Index(condition=models.Q(('summary_blob__isnull', False)), fields=['summary_blob'], name='message_summary_blob'), models.Index(condition=models.Q(('extra_blob__isnull', False)), fields=['extra_blob'], name='message_extra_blob')],
                    'constraints': [models.UniqueConstraint(fields=('rollout', 'index', 'event_id'), name='message_event_unique')],
                },
            ),
            migrations.CreateModel(
                name='SessionSnapshot',
                fields=[
                    ('id', models.BigIntegerField(help_text='Id of the episode', primary_key=True, serialize=False)),
                    ('step', models.BigIntegerField(help_text='Index of the last step that it contains')),
                    ('state', models.BinaryField()),
                    ('problem', models.TextField(blank=True, help_text='Why there is no state')),
                ],
            ),
            migrations.CreateModel(
                name='SessionSecrets',
                fields=[
                    ('id', models.BigIntegerField(help_text='Id of the episode', primary_key=True, serialize=False)),
                    ('sealed', models.BinaryField(help_text='Encrypted under a key from ORSWEB_SECRETS_KEY_FILE')),
                ],
            ),
            migrations.CreateModel(
                name='SuiteTask',
                fields=[
                    ('id', models.BigAutoField(primary_key=True, serialize=False)),
                    ('member', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='tasks', to='episodes.suitemember')),
                    ('position', models.PositiveIntegerField(help_text='From 0 on, in the order of the split')),
                    ('task', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='environments.task')),
                ],
                options={
                    'constraints': [models.UniqueConstraint(fields=('member', 'position'), name='suitetask_place_unique'), models.UniqueConstraint(fields=('member', 'task'), name='suitetask_unique')],
                },
            ),
            migrations.CreateModel(
                name='DealtTask',
                fields=[
                    ('id', models.BigAutoField(primary_key=True, serialize=False)),
                    ('study', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='dealt', to='episodes.study')),
                    ('guest', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='dealt', to='episodes.guest')),
                    ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='environments.task')),
                    ('created', models.DateTimeField(auto_now_add=True)),
                    ('starting', models.DateTimeField(blank=True, help_text='Since when a session for it is being started', null=True)),
                ],
                options={
                    'ordering': ['id'],
                    'indexes': [models.Index(fields=['study', 'task'], name='dealttask_study'), models.Index(fields=['task'], name='dealttask_task')],
                    'constraints': [models.UniqueConstraint(fields=('guest', 'task'), name='dealttask_unique')],
                },
            ),
        ),
        migrations.RunPython(create_search, drop_search),
        migrations.RunPython(make_groups, migrations.RunPython.noop),
    ]
