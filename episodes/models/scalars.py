"""Models of scalars, the numbers that trainers report by training step: ScalarSeries, ScalarChunk.
`episodes/runs/scalars.py` writes them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from episodes.models.runs import Run

MAX_SCALAR_NAME_CHARACTERS = 100


class ScalarSeries(models.Model):
    """All values of one scalar of a run, such as its loss; the row has the newest one."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="scalars", db_index=False)
    name = models.CharField(max_length=MAX_SCALAR_NAME_CHARACTERS)
    points = models.PositiveBigIntegerField(default=0, help_text="Number of steps with a value")
    gaps = models.PositiveBigIntegerField(default=0, help_text="Those whose value is not finite")
    last_step = models.BigIntegerField(default=0)
    last = models.FloatField(null=True, help_text="Value at the last step; empty if not finite")

    class Meta:
        verbose_name_plural = "scalar series"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "name"], name="scalarseries_unique")
        ]

    def __str__(self) -> str:
        return self.name


class ScalarChunk(models.Model):
    """Up to 1,024 neighbouring points of a series, and summaries of them for pictures of many.

    The binary fields have the records of `episodes/runs/scalar_summaries.py`, in the order of
    steps.
    """

    series = models.ForeignKey(ScalarSeries, models.CASCADE, related_name="chunks", db_index=False)
    start = models.BigIntegerField(help_text="First step")
    end = models.BigIntegerField(help_text="Last step")
    numbers = models.PositiveIntegerField(help_text="Points whose value is finite")
    gaps = models.PositiveIntegerField(help_text="Points whose value is not finite")
    low = models.FloatField(help_text="Least of the finite values; 0 without any")
    mean = models.FloatField()
    high = models.FloatField()
    spans = models.BinaryField(help_text="Summaries of 128 points each")
    groups = models.BinaryField(help_text="Summaries of 16 points each")
    values = models.BinaryField(help_text="Step and value of each point")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["series", "start"], name="scalarchunk_unique")
        ]

    def __str__(self) -> str:
        return f"{self.series_id}: {self.start} to {self.end}"
