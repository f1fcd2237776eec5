"""Models of what is kept of a running episode so that its session can come back: SessionSnapshot
and SessionSecrets.

The recorder writes them in the transaction of the step or the start that they belong to, and
deletes them with the end of the episode. They are written by id, without a foreign key: nothing of
the record depends on them.
"""

from __future__ import annotations

from django.db import models


class SessionSnapshot(models.Model):
    """What the environment of a running episode saved last."""

    id = models.BigIntegerField(primary_key=True, help_text="Id of the episode")
    step = models.BigIntegerField(help_text="Index of the last step that it contains")
    state = models.BinaryField()
    problem = models.TextField(blank=True, help_text="Why there is no state")

    def __str__(self) -> str:
        return f"{self.pk} after step {self.step}"


class SessionSecrets(models.Model):
    """The secrets of a live session, encrypted."""

    id = models.BigIntegerField(primary_key=True, help_text="Id of the episode")
    sealed = models.BinaryField(help_text="Encrypted under a key from ORSWEB_SECRETS_KEY_FILE")

    def __str__(self) -> str:
        return f"secrets of episode {self.pk}"
