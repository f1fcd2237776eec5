"""Models of what people do to the record by playing and reading.

`episodes/people/` writes Play, Invite, Guest and Note. An episode that a person plays is an Episode
like any other; its Play says who played it and what it continues. Redaction and RedactedEpisode say
what was removed from the record; the removed text itself is stored nowhere.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from environments.models import Environment, Split, Task

EPISODE = "episodes.Episode"
LOOSE: dict[str, Any] = {"on_delete": models.SET_NULL, "null": True, "blank": True}
"""Options of a foreign key whose row survives the row that it refers to."""


class Invite(models.Model):
    """A link that lets a person without an account play one environment, one split of it, or the
    tasks of a study."""

    token_hash = models.CharField(
        max_length=64, unique=True, help_text="sha256 of the link's secret, which is not kept"
    )
    name = models.CharField(max_length=100, help_text="Whom or what it is for")
    environment = models.ForeignKey(
        Environment, models.CASCADE, related_name="invites", db_index=False
    )
    split = models.ForeignKey(
        Split, models.CASCADE, null=True, blank=True, related_name="invites", db_index=False
    )
    is_blind = models.BooleanField(default=False, help_text="Rewards stay hidden until the end")
    study = models.ForeignKey(
        "episodes.Study",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="invites",
        help_text="If it is for one",
    )
    is_personal = models.BooleanField(
        default=False,
        help_text="Everyone who opens the link is the same guest, whose name is that of the invite",
    )
    author = models.CharField(max_length=150)
    created = models.DateTimeField(auto_now_add=True)
    expires = models.DateTimeField()
    revoked = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return self.name


class Guest(models.Model):
    """Somebody who opened an invite; each browser is a separate guest."""

    invite = models.ForeignKey(Invite, models.CASCADE, related_name="guests")
    name = models.CharField(max_length=60, help_text="As they call themselves")
    created = models.DateTimeField(auto_now_add=True)
    consented = models.DateTimeField(
        null=True, blank=True, help_text="When they started the study of the invite"
    )
    excluded = models.DateTimeField(
        null=True, blank=True, help_text="Since when no figure counts what they play in their study"
    )
    exclusion = models.CharField(max_length=300, blank=True, help_text="Why, and by whom")

    def __str__(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        """Name in the record. No username has a bracket, so no account is mistaken for a guest."""
        return f"@{self.name} (guest {self.pk})"


class Play(models.Model):
    """An episode that a person plays: who, how, and from which step of which episode it goes on."""

    episode = models.OneToOneField(EPISODE, models.CASCADE, primary_key=True, related_name="play")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, related_name="plays", **LOOSE)
    guest = models.ForeignKey(Guest, related_name="plays", **LOOSE)
    is_blind = models.BooleanField(
        default=False, help_text="The player sees rewards only at the end"
    )
    paused_seconds = models.FloatField(
        default=0.0, help_text="Time for which the player was away, in a study"
    )
    paused_since = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Since when a study's clock stands still, because no page is open; null: it runs",
    )
    is_repeat = models.BooleanField(
        default=False,
        help_text="The player had played the task before, or had seen it, so it isn't their first "
        "attempt",
    )
    counts_left = models.BooleanField(
        null=True,
        blank=True,
        help_text="In a study, whether it counts if its player leaves it; null: in no study",
    )
    is_excluded = models.BooleanField(
        default=False, help_text="The player was excluded from their study, so no figure counts it"
    )
    parent = models.ForeignKey(EPISODE, related_name="continuations", **LOOSE)
    parent_step = models.PositiveIntegerField(
        null=True, blank=True, help_text="Last of its steps that was run again"
    )
    differs_at = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="First of those whose output or reward was another than the parent's",
    )

    def __str__(self) -> str:
        return f"play of episode {self.pk}"

    @property
    def seconds(self) -> float | None:
        """Time from the start to the last answer, without pauses; None without a call."""
        spent = self.episode.duration_seconds
        return None if spent is None else max(0.0, spent - self.paused_seconds)


class SeenTask(models.Model):
    """A task whose page, or an episode of which, a person has opened: playing it later is no first
    attempt."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="seen_tasks", db_index=False
    )
    task = models.ForeignKey(Task, models.CASCADE, related_name="+")
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "task"], name="seentask_unique")
        ]

    def __str__(self) -> str:
        return f"task {self.task_id} seen by user {self.user_id}"


class Note(models.Model):
    """A person's note about an episode or one of its steps."""

    episode = models.ForeignKey(EPISODE, models.CASCADE, related_name="notes")
    step = models.PositiveIntegerField(
        null=True, blank=True, help_text="Index of the step; null: the whole episode"
    )
    author = models.CharField(max_length=200)
    text = models.TextField()
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return self.text[:60]


class Redaction(models.Model):
    """One replacement of a text by stars in everything that is recorded."""

    author = models.CharField(max_length=150, help_text="User name, or the name of the command")
    reason = models.CharField(max_length=300, blank=True)
    created = models.DateTimeField(auto_now_add=True)
    finished = models.DateTimeField(
        null=True, blank=True, help_text="Empty: it is running or was stopped"
    )
    rows = models.PositiveIntegerField(
        default=0, help_text="Number of rows in which the text stood"
    )

    class Meta:
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"redaction {self.pk}"


class RedactedEpisode(models.Model):
    """An episode in which a redaction replaced something."""

    redaction = models.ForeignKey(
        Redaction, models.CASCADE, related_name="episodes", db_index=False
    )
    episode = models.ForeignKey(EPISODE, models.CASCADE, related_name="redactions")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["redaction", "episode"], name="redactedepisode_unique")
        ]

    def __str__(self) -> str:
        return f"episode {self.episode_id} in redaction {self.redaction_id}"


class SignOnAccount(models.Model):
    """The account of a subject of an OpenID provider, see `orsweb/accounts/single_sign_on.py`."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="sign_on", primary_key=True
    )
    issuer = models.CharField(max_length=400)
    subject = models.CharField(
        max_length=255, help_text="Unique and never used again, as its issuer promises"
    )

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="signonaccount_unique")
        ]

    def __str__(self) -> str:
        return self.subject
