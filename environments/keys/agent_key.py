"""What the API key of a request may do: its scopes, environments, splits and run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from environments.errors import Forbidden
from environments.models import Viewer
from environments.quotas import KeyUsage

PLAY, RECORD, READ, CURATE, ADMIN = "play", "record", "read", "curate", "admin"
MONITOR, SECRETS = "monitor", "secrets"

SCOPES: Mapping[str, str] = {
    PLAY: "Open sessions, read prompts and call tools",
    RECORD: "Upload conversations and describe runs",
    READ: "Read what was recorded with this key: episodes, conversations, runs and exports",
    CURATE: "Read tasks completely: their hidden fields, and those of sealed splits",
    MONITOR: "Read how busy the server is: /metrics, and the checks of /ready",
    SECRETS: "Play with the secrets that the operator has given to environments",
    ADMIN: "Everything, including what was recorded with other keys",
}
"""Each scope with what it allows."""
USUAL_SCOPES = (PLAY, RECORD, READ)
"""Scopes that a new key has unless others are chosen."""
SETTINGS_SCOPES = (PLAY, RECORD, READ, CURATE)
"""Scopes of the keys in ORSWEB_API_KEYS."""

Client = tuple[str, str]
"""Address of the sender of a request, and its `X-Forwarded-For`."""


@dataclass(eq=False, slots=True)
class AgentKey:
    """A key that is in force. Without restrictions, `environments` and `splits` are None."""

    label: str
    """Name under which sessions and records belong to the key; empty on a server without keys."""
    scopes: frozenset[str]
    environments: frozenset[str] | None = None
    splits: frozenset[str] | None = None
    """Names of splits, of any environment."""
    hidden_environments: Mapping[str, int] = field(default_factory=dict)
    """Ids of the private environments that do not exist for the key, by name in lower case."""
    run: str = ""
    """Name of the only run that the key may record; empty: any."""
    expires: float | None = None
    digest: bytes = b""
    """Hash of its text, which `rotate_key` replaces; empty for `EVERYBODY`."""
    row: int | None = None
    """Number of its row; None for a key of ORSWEB_API_KEYS."""
    usage: KeyUsage = field(default_factory=KeyUsage)
    """What it uses now; the same object as long as the key is in force, also when its quotas
    change."""
    last_client: Client | None = None
    """Sender of the last request whose use of the key is not recorded yet."""
    clients_of_day: set[Client] = field(default_factory=set)
    """Senders of today's requests, for the security log."""

    @property
    def hidden_ids(self) -> frozenset[int]:
        """Ids of the private environments that do not exist for the key."""
        return frozenset(self.hidden_environments.values())

    @property
    def viewer(self) -> Viewer:
        """What exists for the key. `environments/keys/task_view.py` has what it reads of tasks."""
        return Viewer(
            self.hidden_ids,
            reads_hidden_fields=CURATE in self.scopes,
            is_key=True,
            key_label=None if ADMIN in self.scopes else self.label,
        )

    def may(self, scope: str) -> bool:
        return scope in self.scopes

    def require(self, *scopes: str) -> None:
        """Check that the key has one of `scopes`, if there are any. Raises: Forbidden."""
        if scopes and self.scopes.isdisjoint(scopes):
            own_scopes = ", ".join(name for name in SCOPES if name in self.scopes) or "none"
            required_scopes = " or ".join(map(repr, scopes))
            raise Forbidden(
                f"The API key {self.label!r} needs the scope {required_scopes} for this; it has: {own_scopes}"
            )

    def may_all_of(self, other: AgentKey) -> bool:
        """Return whether the key may do all that `other` may."""
        limits = [(self.environments, other.environments), (self.splits, other.splits)]
        return (
            self.scopes >= other.scopes
            and all(mine is None or (its is not None and mine >= its) for mine, its in limits)
            and self.run in ("", other.run)
        )

    def has_environment(self, name: str) -> bool:
        name = name.lower()
        return name not in self.hidden_environments and (
            self.environments is None or name in self.environments
        )

    def among(self, names: Iterable[str]) -> list[str]:
        """Return those of `names` of environments that the key may use, in their order."""
        return [name for name in names if self.has_environment(name)]

    def has_split(self, name: str) -> bool:
        return self.splits is None or name in self.splits

    def check_environment(self, name: str) -> None:
        """Check that the key may use the environment `name`, which need not exist. Raises:
        Forbidden.

        A hidden environment passes unless the key is restricted: the caller then finds that it is
        unknown.
        """
        if self.environments is not None and name.lower() not in self.environments:
            raise Forbidden(
                f"The API key {self.label!r} may not use the environment {name[:200]!r}; it may "
                f"use {_listing(self.environments)}"
            )

    def check_split(self, name: str) -> None:
        """Check that the key may use splits named `name`. Raises: Forbidden."""
        if self.splits is not None and name not in self.splits:
            raise Forbidden(
                f"The API key {self.label!r} may not use the split {name[:200]!r}; it may use "
                f"{_listing(self.splits)}"
            )

    def check_run(self, name: str) -> None:
        """Check that the key may record the run `name`. Raises: Forbidden."""
        if self.run and name != self.run:
            raise Forbidden(
                f"The API key {self.label!r} belongs to the run {self.run!r} and may not use "
                f"{name[:200]!r}"
            )


def scopes_of(names: Iterable[str]) -> frozenset[str]:
    """Return the scopes that a key with the scopes `names` has: `admin` includes all others."""
    scopes = frozenset(names)
    return frozenset(SCOPES) if ADMIN in scopes else scopes & frozenset(SCOPES)


def sent_key(meta: Mapping[str, str]) -> str:
    """Return the API key in the headers X-API-Key or `Authorization: Bearer`; empty if neither has
    one."""
    if key := meta.get("HTTP_X_API_KEY", ""):
        return key
    kind, _, token = meta.get("HTTP_AUTHORIZATION", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _listing(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names)[:20]) or "none"


EVERYBODY = AgentKey("", frozenset(SCOPES))
"""The key of every request on a server that needs no keys."""
