"""Suites: their versions, the members of each, and the tasks of each member."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("environments", "0014_find_superseded_tasks"),
        ("episodes", "0026_calls_and_scatter"),
    ]

    operations = [
        migrations.CreateModel(
            name="Suite",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        help_text="As in addresses: letters, digits, and - _ . inside", max_length=100, unique=True
                    ),
                ),
                ("description", models.TextField(blank=True)),
                ("author", models.CharField(max_length=150)),
                ("created", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="SuiteVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField(help_text="From 1 on")),
                (
                    "score",
                    models.CharField(
                        choices=[("success", "success rate"), ("return", "mean return")],
                        help_text="Figure of a task that the score averages",
                        max_length=7,
                    ),
                ),
                (
                    "document",
                    models.TextField(help_text="JSON of everything that the hash identifies, exactly as it was hashed"),
                ),
                (
                    "salt",
                    models.CharField(
                        help_text="Random, so that no hash confirms guesses of hidden fields", max_length=32
                    ),
                ),
                ("hash", models.CharField(help_text="sha256 of the document", max_length=64)),
                ("author", models.CharField(max_length=150)),
                ("created", models.DateTimeField(auto_now_add=True)),
                (
                    "suite",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="versions",
                        to="episodes.suite",
                    ),
                ),
            ],
            options={
                "ordering": ["suite", "number"],
            },
        ),
        migrations.CreateModel(
            name="SuiteMember",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveSmallIntegerField(help_text="From 1 on, in the order of the version")),
                ("split_name", models.CharField(help_text="Its name when the version was made", max_length=200)),
                (
                    "split_version",
                    models.PositiveBigIntegerField(help_text="Version of the split whose tasks these are"),
                ),
                ("return_name", models.CharField(help_text="Definition of return", max_length=8)),
                ("threshold", models.FloatField(help_text="A return above it is a success")),
                (
                    "convention",
                    models.CharField(help_text="How rollouts count, as in Environment.convention", max_length=4),
                ),
                ("weight", models.FloatField(help_text="Above 0; the score divides by the sum of all weights")),
                ("tasks_count", models.PositiveIntegerField()),
                (
                    "tasks_hash",
                    models.CharField(
                        help_text="Of the salt and the tasks' content hashes, by sha256", max_length=64
                    ),
                ),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="environments.environment"
                    ),
                ),
                (
                    "split",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="environments.split",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="members",
                        to="episodes.suiteversion",
                    ),
                ),
            ],
            options={
                "ordering": ["version", "number"],
            },
        ),
        migrations.CreateModel(
            name="SuiteTask",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("position", models.PositiveIntegerField(help_text="From 0 on, in the order of the split")),
                (
                    "member",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tasks",
                        to="episodes.suitemember",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="environments.task"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("member", "position"), name="suitetask_place_unique"),
                    models.UniqueConstraint(fields=("member", "task"), name="suitetask_unique"),
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="suiteversion",
            constraint=models.UniqueConstraint(fields=("suite", "number"), name="suiteversion_unique"),
        ),
        migrations.AddConstraint(
            model_name="suitemember",
            constraint=models.UniqueConstraint(fields=("version", "number"), name="suitemember_unique"),
        ),
    ]
