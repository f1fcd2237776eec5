"""Models of runs: Run and RunTag. The recorder, trainers' reports and imports begin runs."""

from __future__ import annotations

from typing import Any, ClassVar, Self

# The modules of the tables import this one, so it finds tables by name.
from django.apps import apps
from django.db import IntegrityError, models

from environments.models import Viewer
from episodes.models.privacy import visible_runs

MAX_RUN_NAME_CHARACTERS = 200
MAX_NAMESAKES = 12
"""Other runs of the same title to which pages about a run have links."""


class RunQuerySet(models.QuerySet["Run"]):
    """Finds and begins the runs of a title."""

    def seen_by(self, viewer: Viewer) -> Self:
        """Return the runs that exist for the viewer."""
        return self.filter(visible_runs(viewer))

    def listed(self) -> Self:
        """Return the runs that have an episode, a conversation or a scalar, or that a trainer has
        described: of others only the name is left, because their episodes were removed."""
        condition: Any = models.Q(updated__isnull=False)
        for name in ("Episode", "Rollout", "ScalarSeries"):
            rows = apps.get_model("episodes", name).objects.filter(run=models.OuterRef("pk"))
            condition |= models.Exists(rows)
        return self.filter(condition)

    def named(self, text: str) -> Self:
        """Return the runs of this title, newest first, or the one with this name: `tiny-1 (2)`."""
        return self.filter(models.Q(title=text) | models.Q(name=text)).order_by("-number")

    def namesakes(self, *names: str) -> Self:
        """Return the other runs that have the titles of the runs with these names, newest first;
        MAX_NAMESAKES."""
        titles = Run.objects.filter(name__in=names).values("title")
        return self.filter(title__in=titles).exclude(name__in=names).order_by("-pk")[:MAX_NAMESAKES]

    def begin(self, title: str, number: int | None = None, **values: Any) -> tuple[Run, bool]:
        """Return the run of a title that has this number, or the client's own id, and whether it is
        new.

        `number`: the one after the newest run that the caller has seen, so that it gets the run
        that another process begins at the same moment; None takes the next one of the title.
        """
        own_id = values.get("own_id", "")
        if number is None:
            last: int | None = self.filter(title=title).aggregate(last=models.Max("number"))["last"]
            number = 1 + (last or 0)
        while True:
            name, ending = title, f" ({number})"
            if number > 1:
                name = f"{title[: MAX_RUN_NAME_CHARACTERS - len(ending)]}{ending}"
            row = {"name": name, "title": title, "number": number, **values}
            sought = {"title": title, "own_id": own_id} if own_id else {"name": name}
            try:
                run, is_new = self.get_or_create(defaults=row, **sought)
            except IntegrityError:
                if not own_id or not self.filter(name=name).exists():
                    raise
            else:
                if (run.title, run.own_id) == (title, own_id):
                    return run, is_new
            number += 1  # another run has this name


class Run(models.Model):
    """One execution of a training or evaluation (docs/decisions/0048-runs-are-executions.md).

    Clients say its title (header X-Run or secret `orsweb_run`). Several runs may have one; the name
    tells them apart. A trainer may describe it through the API (`episodes/runs`); until then
    everything after `created` is empty.
    """

    STATES: ClassVar = [("running", "running"), ("ended", "ended"), ("failed", "failed")]
    ENDED_STATES: ClassVar = frozenset({"ended", "failed"})

    name = models.CharField(max_length=MAX_RUN_NAME_CHARACTERS, unique=True)
    title = models.CharField(
        max_length=MAX_RUN_NAME_CHARACTERS,
        blank=True,
        help_text="As clients say it; the name of the second run with this title ends with (2)",
    )
    number = models.PositiveIntegerField(default=1, help_text="1 for the first run of its title")
    own_id = models.CharField(
        max_length=200,
        blank=True,
        help_text="Id that its client gave it, among the runs of its title",
    )
    model = models.CharField(
        max_length=200,
        blank=True,
        help_text="As the trainer says; else the first model named by one of its episodes",
    )
    created = models.DateTimeField()
    key_label = models.CharField(
        max_length=200, blank=True, help_text="Key that created it before its first episode"
    )
    step = models.BigIntegerField(
        null=True, blank=True, help_text="Current training step, given to episodes that name none"
    )
    state = models.CharField(max_length=8, choices=STATES, blank=True)
    config = models.TextField(blank=True, help_text="A JSON object")
    git_commit = models.CharField(max_length=100, blank=True)
    notes = models.TextField(blank=True)
    updated = models.DateTimeField(
        null=True, blank=True, help_text="Last time a trainer described it"
    )

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["title", "own_id"], name="run_own_id", condition=~models.Q(own_id="")
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["title", "number"], name="run_title")]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **options: Any) -> None:
        self.title = self.title or self.name
        super().save(*args, **options)

    @property
    def is_over(self) -> bool:
        return self.state in self.ENDED_STATES

    @property
    def tag_names(self) -> list[str]:
        """Return the tags in the order in which they were given."""
        return [tag.name for tag in self.tags.all()]


class RunTag(models.Model):
    """A word by which people find a run."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="tags", db_index=False)
    name = models.CharField(max_length=50)

    class Meta:
        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "name"], name="runtag_unique")
        ]
        # runs with a tag
        indexes: ClassVar = [models.Index(fields=["name", "run"], name="runtag_name")]

    def __str__(self) -> str:
        return self.name
