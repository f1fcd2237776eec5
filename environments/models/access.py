"""The rows of API keys with what they record in a day, of the security log, and of the servers that
share a database, with the sessions that each of them has."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class ApiKey(models.Model):
    """A key with which programs use this server. Only its SHA-256 is stored. `environments/keys/`
    creates and checks it.

    Keys are revoked and never deleted, because the records of what was played with them refer to
    their names.
    """

    name = models.CharField(
        max_length=200, unique=True, help_text="Shown with everything that is recorded with the key"
    )
    digest = models.CharField(
        max_length=64, unique=True, editable=False, help_text="SHA-256 of the key, in hexadecimal"
    )
    hint = models.CharField(max_length=16, editable=False, help_text="First characters of the key")
    owner = models.ForeignKey(
        "auth.User",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="api_keys",
        help_text="Who answers for the key; it stops working when this account is not active",
    )
    scopes = models.JSONField(default=list, help_text="What the key may do")
    environments = models.JSONField(
        default=list, blank=True, help_text="Names of the environments it may use; none: all"
    )
    splits = models.JSONField(
        default=list, blank=True, help_text="Names of the splits it may use; none: all"
    )
    run = models.CharField(
        max_length=200, blank=True, help_text="The only run that it may record; empty: any"
    )
    quotas = models.JSONField(
        default=dict, blank=True, help_text="Quotas by name that replace the server's"
    )
    expires = models.DateTimeField(
        null=True, blank=True, help_text="When it stops working; empty: never"
    )
    created = models.DateTimeField(auto_now_add=True)
    revoked = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_by = models.CharField(max_length=150, blank=True, editable=False)
    last_used = models.DateTimeField(null=True, blank=True, editable=False)
    last_address = models.CharField(
        max_length=64, blank=True, editable=False, help_text="Where it was last used from"
    )
    version = models.PositiveBigIntegerField(
        default=1, editable=False, help_text="Rises with every change of the key"
    )

    class Meta:
        verbose_name = "API key"
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return self.name


class EnvironmentSecret(models.Model):
    """A secret that the operator gives to an environment. `environments/operator_secrets/` encrypts
    and reads it."""

    environment = models.ForeignKey(
        "environments.Environment", on_delete=models.CASCADE, related_name="secrets", db_index=False
    )
    name = models.CharField(max_length=200)
    sealed = models.BinaryField(
        help_text="Encrypted under a key that is made of the server's secret key"
    )

    class Meta:
        verbose_name = "secret of an environment"
        verbose_name_plural = "secrets of environments"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["environment", "name"], name="secret_name_unique")
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.environment_id}"


class RecordedBytes(models.Model):
    """What was recorded for a key on its latest day, if it has a quota of that; label: empty
    without a key."""

    label = models.CharField(max_length=200, unique=True)
    day = models.PositiveIntegerField(help_text="Days since 1970-01-01, in UTC")
    count = models.PositiveBigIntegerField()


class SecurityEvent(models.Model):
    """An entry of the security log. `environments/security_log/` writes it and says what the kinds
    mean."""

    at = models.DateTimeField(help_text="Of several, the first")
    until = models.DateTimeField(null=True, help_text="Of several, the last")
    kind = models.CharField(max_length=20)
    who = models.CharField(max_length=200, blank=True, help_text="Account, or name of a key")
    address = models.CharField(max_length=64, blank=True)
    what = models.CharField(max_length=300, blank=True)
    detail = models.CharField(max_length=500, blank=True)
    count = models.PositiveBigIntegerField(default=1)

    class Meta:
        verbose_name = "entry of the security log"
        verbose_name_plural = "security log"
        ordering: ClassVar = ["-pk"]
        indexes: ClassVar = [
            models.Index(fields=["kind", "-id"], name="security_kind"),  # the list's filter
            # what is too old, and the list's filter
            models.Index(fields=["at"], name="security_at"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.what}".strip()


class ClusterServer(models.Model):
    """One start of a server that shares its database. Its id is the epoch of its leases: later
    starts have higher ones.

    A server is alive while a connection of it holds the advisory lock of its id
    (`environments/cluster/membership.py`).
    """

    address = models.TextField(
        help_text="Where other servers reach it: host:port, or the path of a Unix socket"
    )
    token = models.TextField(help_text="What a request says that another server passes on to it")
    machine = models.TextField(help_text="Name of its machine")
    pid = models.PositiveIntegerField()
    directory = models.TextField(help_text="Where it notes what it runs, on its machine")
    started = models.DateTimeField(auto_now_add=True)
    ended = models.DateTimeField(
        null=True,
        help_text="When it stopped, or was found dead; from then on it records nothing more",
    )
    last_episode = models.PositiveBigIntegerField(
        default=0, help_text="Highest number of an episode that it may use"
    )

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.machine}"


class SessionLease(models.Model):
    """Which server has a session. Written before the session is opened, deleted after its end is
    recorded."""

    session = models.CharField(
        max_length=32, primary_key=True, help_text="Digest of the session's id"
    )
    server = models.ForeignKey(ClusterServer, on_delete=models.CASCADE)
    opening = models.TextField(
        null=True, help_text="What opens the session again until an episode of it is on record"
    )

    def __str__(self) -> str:
        return self.session
