"""Makes the tables of the catalogue, of access and of the cluster at once, as the replaced migrations leave them.

Databases have its name on record, so it keeps that, although it replaces later ones too.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import environments.models.folding
from environments.database.create_models import CreateModels


class Migration(migrations.Migration):

    initial = True

    replaces = [
        ('environments', '0001_initial'),
        ('environments', '0002_flags_and_blind_play'),
        ('environments', '0003_what_lists_walk_along'),
        ('environments', '0004_convention_and_kinds'),
        ('environments', '0005_api_keys'),
        ('environments', '0006_sealed_splits'),
        ('environments', '0007_disabled_reason'),
        ('environments', '0009_security_log'),
        ('environments', '0010_groups_of_people'),
        ('environments', '0011_quotas'),
        ('environments', '0012_private_environments'),
        ('environments', '0013_superseded_tasks'),
        ('environments', '0014_find_superseded_tasks'),
        ('environments', '0015_actions'),
        ('environments', '0016_find_actions'),
        ('environments', '0017_clusters'),
        ('environments', '0018_removals_by_hash'),
        ('environments', '0019_lease_openings'),
        ('environments', '0020_listed_code'),
        ('environments', '0021_sync_conflicts'),
        ('environments', '0022_folded_specs'),
        ('environments', '0023_fold_specs'),
        ('environments', '0024_splits_sealed_for_people'),
        ('environments', '0025_fold_invisible_characters'),
        ('environments', '0026_environment_secrets'),
        ('environments', '0027_numberless_attempts'),
    ]

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name='ApiKey',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(help_text='Shown with everything that is recorded with the key', max_length=200, unique=True)),
                    ('digest', models.CharField(editable=False, help_text='SHA-256 of the key, in hexadecimal', max_length=64, unique=True)),
                    ('hint', models.CharField(editable=False, help_text='First characters of the key', max_length=16)),
                    ('owner', models.ForeignKey(blank=True, help_text='Who answers for the key; it stops working when this account is not active', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='api_keys', to=settings.AUTH_USER_MODEL)),
                    ('scopes', models.JSONField(default=list, help_text='What the key may do')),
                    ('environments', models.JSONField(blank=True, default=list, help_text='Names of the environments it may use; none: all')),
                    ('splits', models.JSONField(blank=True, default=list, help_text='Names of the splits it may use; none: all')),
                    ('run', models.CharField(blank=True, help_text='The only run that it may record; empty: any', max_length=200)),
                    ('quotas', models.JSONField(blank=True, default=dict, help_text="Quotas by name that replace the server's")),
                    ('expires', models.DateTimeField(blank=True, help_text='When it stops working; empty: never', null=True)),
                    ('created', models.DateTimeField(auto_now_add=True)),
                    ('revoked', models.DateTimeField(blank=True, editable=False, null=True)),
                    ('revoked_by', models.CharField(blank=True, editable=False, max_length=150)),
                    ('last_used', models.DateTimeField(blank=True, editable=False, null=True)),
                    ('last_address', models.CharField(blank=True, editable=False, help_text='Where it was last used from', max_length=64)),
                    ('version', models.PositiveBigIntegerField(default=1, editable=False, help_text='Rises with every change of the key')),
                ],
                options={
                    'verbose_name': 'API key',
                    'ordering': ['-id'],
                },
            ),
            migrations.CreateModel(
                name='RecordedBytes',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('label', models.CharField(max_length=200, unique=True)),
                    ('day', models.PositiveIntegerField(help_text='Days since 1970-01-01, in UTC')),
                    ('count', models.PositiveBigIntegerField()),
                ],
            ),
            migrations.CreateModel(
                name='SecurityEvent',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('at', models.DateTimeField(help_text='Of several, the first')),
                    ('until', models.DateTimeField(help_text='Of several, the last', null=True)),
                    ('kind', models.CharField(max_length=20)),
                    ('who', models.CharField(blank=True, help_text='Account, or name of a key', max_length=200)),
                    ('address', models.CharField(blank=True, max_length=64)),
                    ('what', models.CharField(blank=True, max_length=300)),
                    ('detail', models.CharField(blank=True, max_length=500)),
                    ('count', models.PositiveBigIntegerField(default=1)),
                ],
                options={
                    'verbose_name': 'entry of the security log',
                    'verbose_name_plural': 'security log',
                    'ordering': ['-pk'],
                    'indexes': [models.Index(fields=['kind', '-id'], name='security_kind'), models.Index(fields=['at'], name='security_at')],
                },
            ),
            migrations.CreateModel(
                name='ClusterServer',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('address', models.TextField(help_text='Where other servers reach it: host:port, or the path of a Unix socket')),
                    ('token', models.TextField(help_text='What a request says that another server passes on to it')),
                    ('machine', models.TextField(help_text='Name of its machine')),
                    ('pid', models.PositiveIntegerField()),
                    ('directory', models.TextField(help_text='Where it notes what it runs, on its machine')),
                    ('started', models.DateTimeField(auto_now_add=True)),
                    ('ended', models.DateTimeField(help_text='When it stopped, or was found dead; from then on it records nothing more', null=True)),
                    ('last_episode', models.PositiveBigIntegerField(default=0, help_text='Highest number of an episode that it may use')),
                ],
            ),
            migrations.CreateModel(
                name='SessionLease',
                fields=[
                    ('session', models.CharField(help_text="Digest of the session's id", max_length=32, primary_key=True, serialize=False)),
                    ('server', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='environments.clusterserver')),
                    ('opening', models.TextField(help_text='What opens the session again until an episode of it is on record', null=True)),
                ],
            ),
            migrations.CreateModel(
                name='Environment',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('name', models.CharField(max_length=200, unique=True)),
                    ('class_path', models.CharField(help_text='module:Class of the last start that hosted it', max_length=400)),
                    ('description', models.TextField(blank=True, help_text="The class's docstring")),
                    ('card', models.TextField(blank=True, help_text='Markdown: the README beside the class, else empty')),
                    ('task_schema', models.TextField(blank=True, help_text='JSON Schema of a task, as the class declares it')),
                    ('unavailable', models.TextField(blank=True, help_text='Why it cannot be played on this machine; empty: it can')),
                    ('is_enabled', models.BooleanField(default=True, help_text='Whether agents may open sessions')),
                    ('disabled_reason', models.TextField(blank=True, db_default='', help_text='Why the server disabled it; empty if a person did')),
                    ('is_blind', models.BooleanField(default=False, help_text='People who play it see rewards only at the end')),
                    ('is_private', models.BooleanField(db_default=False, default=False, help_text='Whether only its members may see it, and keys that name it')),
                    ('is_hosted', models.BooleanField(default=True, help_text='Whether the last start hosted it')),
                    ('is_procedural', models.BooleanField(default=False, help_text='Tasks are asked of the class, not listed')),
                    ('default_return', models.CharField(default='sum', max_length=8)),
                    ('reward_low', models.FloatField(default=0.0)),
                    ('reward_high', models.FloatField(default=1.0)),
                    ('success_threshold', models.FloatField(default=0.9)),
                    ('declared_return', models.CharField(default='sum', help_text='Definition of return that the class declares; default_return is the one in force', max_length=8)),
                    ('declared_low', models.FloatField(default=0.0)),
                    ('declared_high', models.FloatField(default=1.0)),
                    ('declared_threshold', models.FloatField(default=0.9)),
                    ('convention', models.CharField(db_default='zkoo', default='zkoo', help_text='How rollouts count, as the class says: a letter for no_call, expired, interrupted and env_error, each k (with its return), z (as 0) or o (left out)', max_length=4)),
                    ('counted', models.CharField(blank=True, help_text='Definition that TaskStatistics follow; unless in force, they are recounted', max_length=40)),
                    ('bucketed', models.CharField(blank=True, help_text='Thresholds that their buckets follow; unless in force, they are recounted', max_length=80)),
                    ('position', models.PositiveIntegerField(default=0, help_text='Order of hosting; 0 is the default environment')),
                    ('listed_code', models.CharField(blank=True, db_default='', help_text='Code that the tasks follow, if they depend on it alone', max_length=32)),
                    ('created', models.DateTimeField(auto_now_add=True)),
                    ('members', models.ManyToManyField(blank=True, help_text='Who may see it if private', related_name='+', to=settings.AUTH_USER_MODEL)),
                    ('member_groups', models.ManyToManyField(blank=True, help_text='Groups whose people may see it if private', related_name='+', to='auth.group')),
                ],
                options={
                    'ordering': ['position', 'name'],
                    'permissions': [('open_admin', 'Can open the admin'), ('view_hidden_fields', 'Can see hidden fields of tasks'), ('view_private_environments', 'Can see all private environments')],
                },
            ),
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
            migrations.CreateModel(
                name='Split',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('environment', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='splits', to='environments.environment')),
                    ('name', models.CharField(max_length=200)),
                    ('type', models.CharField(choices=[('train', 'train'), ('validation', 'validation'), ('test', 'test')], max_length=10)),
                    ('position', models.PositiveIntegerField(default=0)),
                    ('is_served', models.BooleanField(default=True, help_text='Whether the protocol lists it')),
                    ('source_hash', models.CharField(blank=True, help_text="Hash over the class's task list at the last sync", max_length=64)),
                    ('version', models.PositiveBigIntegerField(default=0, help_text='Rises with every change of content or order')),
                    ('size', models.PositiveIntegerField(default=0, help_text='Number of tasks served')),
                    ('is_curated', models.BooleanField(default=False, help_text='Made by people; no class declares it')),
                    ('is_sealed', models.BooleanField(db_default=False, default=False, help_text='Keys without the scope curate play its tasks and cannot read them')),
                    ('is_sealed_for_people', models.BooleanField(db_default=False, default=False, help_text='Neither do people without the permission to see hidden fields read them, nor what was played there')),
                    ('frozen', models.DateTimeField(blank=True, help_text='Since when content and order cannot change', null=True)),
                    ('frozen_hash', models.CharField(blank=True, help_text="Over its tasks' hashes in order, when frozen", max_length=64)),
                    ('changing', models.CharField(blank=True, help_text='Token of the change that is under way', max_length=32)),
                    ('changing_until', models.DateTimeField(blank=True, help_text='The change is dead if this has passed', null=True)),
                ],
                options={
                    'ordering': ['environment', 'position', 'name'],
                    'constraints': [models.UniqueConstraint(fields=('environment', 'name'), name='split_name_unique')],
                },
            ),
            migrations.CreateModel(
                name='Task',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('environment', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='tasks', to='environments.environment')),
                    ('content_hash', models.CharField(max_length=64)),
                    ('spec', models.TextField(help_text='Exact JSON text; never rewritten')),
                    ('folded', environments.models.folding.FoldedJSON(editable=False, help_text='The spec as searches compare it; null: it is in ASCII, so it is the spec', null=True)),
                    ('state', models.CharField(choices=[('active', 'active'), ('quarantined', 'quarantined')], db_default='active', max_length=11)),
                    ('reason', models.TextField(blank=True, db_default='', help_text='Why it is quarantined')),
                    ('source', models.CharField(choices=[('code', 'code'), ('import', 'import'), ('edit', 'edit'), ('played', 'played')], db_default='played', help_text='Where it came from first', max_length=6)),
                    ('dropped', models.DateTimeField(blank=True, help_text='Since when no class lists it, though one did', null=True)),
                    ('is_unseen', models.BooleanField(db_default=True, help_text='No attempt was counted; may still say so of one that has statistics, never the other way round')),
                    ('replaced_by', models.ForeignKey(blank=True, db_index=False, help_text='The task that an edit put in its place last; null: none, or it was restored since', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='environments.task')),
                    ('created', models.DateTimeField(auto_now_add=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['environment', 'id'], name='task_environment'), models.Index(fields=['state', 'id'], name='task_state'), models.Index(fields=['source', 'id'], name='task_source'), models.Index(condition=models.Q(('dropped__isnull', False)), fields=['id'], name='task_dropped'), models.Index(condition=models.Q(('is_unseen', True)), fields=['id'], name='task_unseen'), models.Index(condition=models.Q(('replaced_by__isnull', False)), fields=['id'], name='task_superseded'), models.Index(condition=models.Q(('replaced_by__isnull', False)), fields=['replaced_by'], name='task_replaced_by')],
                    'constraints': [models.UniqueConstraint(fields=('environment', 'content_hash'), name='task_content_unique')],
                },
            ),
            migrations.CreateModel(
                name='TaskTag',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tags', to='environments.task')),
                    ('name', models.CharField(max_length=60)),
                ],
                options={
                    'ordering': ['name'],
                    'constraints': [models.UniqueConstraint(fields=('name', 'task'), name='tasktag_unique')],
                },
            ),
            migrations.CreateModel(
                name='TaskFlag',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='flags', to='environments.task')),
                    ('note', models.TextField(help_text='What is wrong with it')),
                    ('author', models.CharField(max_length=200)),
                    ('episode', models.BigIntegerField(blank=True, help_text='Number of the episode in which it showed', null=True)),
                    ('created', models.DateTimeField(auto_now_add=True)),
                    ('settled', models.DateTimeField(blank=True, null=True)),
                    ('settled_by', models.CharField(blank=True, max_length=150)),
                ],
                options={
                    'ordering': ['id'],
                    'indexes': [models.Index(condition=models.Q(('settled__isnull', True)), fields=['task'], name='taskflag_open')],
                },
            ),
            migrations.CreateModel(
                name='SplitEntry',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('split', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='entries', to='environments.split')),
                    ('position', models.PositiveIntegerField()),
                    ('task', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='entries', to='environments.task')),
                    ('source_hash', models.CharField(blank=True, db_default='', help_text='Hash of the task that the class lists here; empty: none', max_length=64)),
                    ('is_hidden', models.BooleanField(db_default=False, help_text='Quarantined: keeps its place, is not served')),
                    ('since', models.PositiveBigIntegerField(db_default=0, help_text='First version of the split that has it')),
                    ('until', models.PositiveBigIntegerField(blank=True, help_text='First version without it; null: none yet', null=True)),
                ],
                options={
                    'indexes': [models.Index(fields=['split', 'task'], name='splitentry_task'), models.Index(condition=models.Q(('until__isnull', False)), fields=['split', 'until'], name='splitentry_ended')],
                    'constraints': [models.UniqueConstraint(fields=('split', 'position', 'since'), name='splitentry_place_unique')],
                },
            ),
            migrations.CreateModel(
                name='SplitStretches',
                fields=[
                    ('split', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='environments.split')),
                    ('version', models.PositiveBigIntegerField(help_text='Of the split')),
                    ('counts', models.TextField(help_text='JSON: a number for each stretch, in order')),
                ],
            ),
            migrations.CreateModel(
                name='SplitRemoval',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('split', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='removals', to='environments.split')),
                    ('source_hash', models.CharField(max_length=64)),
                ],
                options={
                    'indexes': [models.Index(fields=['split', 'source_hash'], name='splitremoval_hash')],
                },
            ),
            migrations.CreateModel(
                name='TaskStatistics',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='statistics', to='environments.task')),
                    ('environment', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='environments.environment')),
                    ('by', models.CharField(choices=[('all', 'all'), ('run', 'run'), ('model', 'model')], max_length=5)),
                    ('key', models.CharField(blank=True, help_text='Name of the run or model; empty for all', max_length=200)),
                    ('attempts', models.PositiveIntegerField()),
                    ('scored', models.PositiveIntegerField(help_text='Attempts that have a return')),
                    ('successes', models.PositiveIntegerField()),
                    ('return_total', models.FloatField(help_text='Sum of the returns; the mean is this by scored')),
                    ('return_low', models.FloatField(blank=True, null=True)),
                    ('return_high', models.FloatField(blank=True, null=True)),
                    ('no_call', models.PositiveIntegerField(db_default=0, default=0)),
                    ('expired', models.PositiveIntegerField(db_default=0, default=0)),
                    ('interrupted', models.PositiveIntegerField(db_default=0, default=0)),
                    ('env_error', models.PositiveIntegerField(db_default=0, default=0, help_text='With failed setups')),
                    ('rate', models.FloatField(help_text='successes by attempts, 0 to 1; 0 without attempts')),
                    ('bucket', models.CharField(db_default='', help_text="By the thresholds that the environment's statistics follow", max_length=9)),
                    ('numberless', models.PositiveIntegerField(db_default=0, default=0, help_text='Attempts whose own return lacks a reward that was not a number')),
                ],
                options={
                    'indexes': [models.Index(condition=models.Q(('by', 'all')), fields=['bucket', 'task', 'by'], name='taskstatistics_bucket'), models.Index(condition=models.Q(('by', 'all')), fields=['environment', 'task'], name='taskstatistics_overall')],
                    'constraints': [models.UniqueConstraint(fields=('task', 'by', 'key'), name='taskstatistics_unique')],
                },
            ),
            migrations.CreateModel(
                name='CurationAction',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('token', models.CharField(help_text='What its revisions share', max_length=32, unique=True)),
                    ('kind', models.CharField(choices=[('quarantine', 'Quarantined'), ('release', 'Released'), ('tag', 'Tagged'), ('splits', 'Splits changed'), ('edit', 'Edited'), ('import', 'Imported'), ('restore', 'Restored'), ('undo', 'Undone'), ('freeze', 'Split frozen'), ('unfreeze', 'Split unfrozen'), ('seal', 'Split sealed'), ('unseal', 'Split unsealed'), ('delete', 'Split deleted'), ('scoring', 'Scoring changed'), ('enabled', 'Switched on or off'), ('blind', 'Blind play changed'), ('privacy', 'Privacy changed')], max_length=10)),
                    ('stage', models.CharField(choices=[('staging', 'staging'), ('applying', 'applying'), ('done', 'done')], help_text='staging: nothing has changed yet; applying: decided, and labels are being written', max_length=8)),
                    ('environment', models.ForeignKey(blank=True, db_index=False, help_text='null: tasks of several environments', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='environments.environment')),
                    ('split', models.ForeignKey(blank=True, help_text='What it made or filled', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='environments.split')),
                    ('author', models.CharField(help_text="User name, 'operator' without accounts, or a command's name", max_length=150)),
                    ('title', models.TextField(help_text='What was done, as a sentence')),
                    ('reason', models.TextField(blank=True)),
                    ('changed', models.PositiveIntegerField(default=0, help_text='Number of tasks that it changed')),
                    ('before', models.TextField(blank=True, help_text='JSON of the settings before, where it changed no tasks')),
                    ('after', models.TextField(blank=True, help_text='The same settings after it')),
                    ('undoes', models.OneToOneField(blank=True, help_text='The action that this one took back', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='undone_by', to='environments.curationaction')),
                    ('created', models.DateTimeField()),
                ],
                options={
                    'verbose_name': 'action',
                    'verbose_name_plural': 'activity',
                    'ordering': ['-id'],
                    'indexes': [models.Index(fields=['environment', '-id'], name='action_environment'), models.Index(fields=['kind', '-id'], name='action_kind'), models.Index(condition=models.Q(('stage', 'done'), _negated=True), fields=['stage'], name='action_unfinished')],
                },
            ),
            migrations.CreateModel(
                name='TaskRevision',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='revisions', to='environments.task')),
                    ('successor', models.ForeignKey(blank=True, help_text='Of an edit: what it became', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='origins', to='environments.task')),
                    ('kind', models.CharField(choices=[('edit', 'edit'), ('merge', 'merge'), ('quarantine', 'quarantine'), ('release', 'release'), ('tag', 'tag'), ('splits', 'splits'), ('import', 'import'), ('restore', 'restore'), ('undo', 'undo'), ('sync', 'sync')], max_length=10)),
                    ('change', models.CharField(help_text='Shared by all revisions of one action', max_length=32)),
                    ('author', models.CharField(help_text="User name, 'operator' without accounts, or a command's name", max_length=150)),
                    ('reason', models.TextField(blank=True)),
                    ('before', models.TextField(help_text='Exact spec of an edit; else JSON of what changed: state, reason, tags, splits')),
                    ('after', models.TextField()),
                    ('created', models.DateTimeField()),
                ],
                options={
                    'ordering': ['-id'],
                    'indexes': [models.Index(fields=['task', 'id'], name='taskrevision_task'), models.Index(fields=['change', 'id'], name='taskrevision_change')],
                },
            ),
            migrations.CreateModel(
                name='SyncConflict',
                fields=[
                    ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                    ('split', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='conflicts', to='environments.split')),
                    ('decision', models.CharField(choices=[('edit', 'edited'), ('removal', 'taken out'), ('quarantine', 'quarantined')], help_text='What people did to the former task', max_length=10)),
                    ('former', models.ForeignKey(db_index=False, help_text='What the class listed before', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='environments.task')),
                    ('kept', models.ForeignKey(db_index=False, help_text='What people made of it by an edit', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='environments.task')),
                    ('listed', models.ForeignKey(db_index=False, help_text='What the class lists instead; null: nothing', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='environments.task')),
                    ('created', models.DateTimeField(auto_now_add=True)),
                    ('settled', models.DateTimeField(blank=True, null=True)),
                    ('settled_by', models.CharField(blank=True, max_length=150)),
                ],
                options={
                    'verbose_name': 'conflict',
                    'ordering': ['-id'],
                },
            ),
        ),
    ]
