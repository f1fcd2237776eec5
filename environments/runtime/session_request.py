"""A request to open a session, as the faces make it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any

from environments.authoring.hosted_environment import HostedEnvironment
from environments.errors import InvalidRequest
from environments.quotas import KeyUsage
from environments.runtime.records import KEY_SECRETS, Player, RunInfo, Survival
from environments.runtime.secrets_mask import MAX_SECRET_CHARACTERS, mask_of
from environments.runtime.secrets_vault import SecretsVault

_KEPT = ("owner", "split", "index", "user_agent", "player", "reads_tasks")
"""Fields of which another server needs the values to open a session again."""
_RUN = tuple(each.name for each in fields(RunInfo))


@dataclass(slots=True)
class SessionRequest:
    """A request to open a session.

    Either `spec` (the task's content) or `split` with `index` is given. If `environment` is None,
    the first path that names an environment binds the session to it.
    """

    sid: str
    owner: str
    """Label of the API key; empty when the server has no keys."""
    environment: str | None
    allowed_environments: frozenset[str] | None = None
    """Names of the environments that a path may bind it to; None: all."""
    spec: Any = None
    split: str | None = None
    index: int | None = None
    secrets: dict[str, str] | None = None
    """The secrets that are passed to the environment."""
    masked_texts: tuple[str, ...] = ()
    """Mask these in the record and the log: the secrets and the API key."""
    sent_key: str = ""
    """The API key that its client sent."""
    toolset: str | None = None
    user_agent: str = ""
    run: RunInfo = field(default_factory=RunInfo)
    player: Player = "agent"
    usage: KeyUsage = field(default_factory=KeyUsage)
    """What the key uses; by default there are no quotas."""
    is_sent: bool = False
    """Whether `spec` comes from somebody who may not read all tasks of the environment; see
    `EpisodeStarted`."""
    reads_tasks: bool = True
    """Whether the player may read all tasks. Otherwise the record of a task of a split must not
    show whether the task holds a secret of the session."""
    can_return: bool = False
    """Whether its client goes on after a restart of the server with nothing but the session's
    id."""

    sealed: bytes = b""
    """The secrets, encrypted, if they may be kept while the session lives."""

    def seal(self, vault: SecretsVault) -> None:
        """Let the secrets be kept encrypted, if the session could need them after a restart."""
        if self.secrets and self.can_return and not self._has_only_key:
            self.sealed = vault.seal(self.secrets, self.masked_texts)

    def opening_json(self) -> str:
        """Return what opens the session at another server while it is not bound; empty if it is
        bound, or has to be lost.

        It holds secrets only encrypted.
        """
        is_unbound = self.environment is None and self.spec is None and self.can_return
        if not is_unbound or self.toolset or (self.secrets and not self.sealed):
            return ""
        values = {name: getattr(self, name) for name in _KEPT}
        values["run"] = {name: getattr(self.run, name) for name in _RUN}
        if self.masked_texts:
            text = json.dumps([self.sid, values])
            if mask_of(self.masked_texts).json(text) != text:
                return ""
        names = self.allowed_environments
        values |= {
            "allowed": None if names is None else sorted(names),
            "sealed": self.sealed.decode(),
        }
        return json.dumps(values)

    @classmethod
    def from_opening(cls, sid: str, opening: str) -> SessionRequest:
        """Return the request from the text of `opening_json`, its secrets still encrypted."""
        values = json.loads(opening)
        names = values.pop("allowed")
        return cls(
            sid,
            environment=None,
            allowed_environments=None if names is None else frozenset(names),
            run=RunInfo(**values.pop("run")),
            sealed=values.pop("sealed").encode(),
            can_return=True,
            **values,
        )

    @property
    def _has_only_key(self) -> bool:
        return self.secrets == dict.fromkeys(KEY_SECRETS, self.sent_key)

    def check_secrets(self) -> None:
        """Raises: InvalidRequest for a secret that is too long to be masked."""
        if (longest := max(map(len, self.masked_texts), default=0)) > MAX_SECRET_CHARACTERS:
            raise InvalidRequest(
                f"A secret has {longest:,} characters; at most {MAX_SECRET_CHARACTERS:,} are "
                "allowed, because the server looks for secrets in everything that it records."
            )

    def survival(self, environment: HostedEnvironment) -> Survival:
        """Return how the session of `environment` goes on after a restart of the server."""
        if not (environment.comes_back and self.can_return):
            return None
        if self.toolset:
            return "toolset"
        if not self.secrets:
            return "replay"
        if self._has_only_key:
            return "key"
        return "sealed" if self.sealed else "secrets"
