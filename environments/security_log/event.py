"""What the security log holds: one event, and the kinds of events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

KINDS = {
    "login": "Login",
    "login_failed": "Login failed",
    "logout": "Logout",
    "key_used": "Key used",
    "key_refused": "Key refused",
    "key_forbidden": "Key not sufficient",
    "key_made": "Key created",
    "key_changed": "Key changed",
    "key_revoked": "Key revoked",
    "invite_changed": "Invite changed",
    "study_changed": "Study changed",
    "account_changed": "Account changed",
    "group_changed": "Group changed",
    "environment_changed": "Environment changed",
    "retention_changed": "Retention changed",
    "curated": "Tasks or splits changed",
    "exported": "Exported",
    "cut_off": "Answer cut off",
    "deleted": "Deleted",
    "redacted": "Redacted",
    "host_refused": "Host refused",
    "proxy_refused": "Proxy refused",
    "events_lost": "Events lost",
}
"""Each kind of event with its name for people."""
REQUEST_REFUSED = "request_refused"
"""Unknown addresses, malformed requests, forms of other sites."""
LABELS_MISTYPED, UPLOADS_REFUSED = "secret_is_no_field_of_the_run", "events_refused"
LINES = frozenset((REQUEST_REFUSED, LABELS_MISTYPED, UPLOADS_REFUSED))
"""Kinds that are only lines, and no rows; the last two are mistakes of a client with a key."""
FAILURES = LINES | {"login_failed", "key_refused", "key_forbidden", "host_refused", "proxy_refused"}
"""Kinds that anybody who reaches the server can cause."""


@dataclass(frozen=True, slots=True)
class Event:
    """What happened; the fields are those of SecurityEvent."""

    kind: str
    at: datetime
    who: str = ""
    address: str = ""
    what: str = ""
    detail: str = ""
    count: int = 1
    until: datetime | None = None
