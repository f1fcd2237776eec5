"""The API keys in force, in memory: those of ORSWEB_API_KEYS and those of the database.

Checking a key is a lookup in a dict. A thread compares the dict with the database every
REFRESH_SECONDS, so a key that any process revokes is refused within a second. While the database is
away, keys stay as they were, and still expire.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import structlog
from django.db import Error, connection, connections
from django.utils import timezone

from environments import conf, security_log
from environments.access.privacy import private_names
from environments.errors import KeyRefused, shorten
from environments.keys.agent_key import (
    ADMIN,
    EVERYBODY,
    SETTINGS_SCOPES,
    AgentKey,
    Client,
    scopes_of,
    sent_key,
)
from environments.keys.stored_keys import hash_key, status_of
from environments.keys.wrong_keys import WrongKeys
from environments.models import ApiKey
from environments.quotas import KeyUsage, Quotas

REFRESH_SECONDS = 0.5
MAX_UNREAD_SECONDS = 10.0
"""Time after which all keys are read again, even if nothing shows that they have changed."""
NOTE_SECONDS = 10.0
"""Time between two notes of when and from where keys were used."""
MAX_CLIENTS_A_DAY = 1_000
"""Clients whose first use of a key on a day is noted in the security log."""
REASONS: Mapping[str, str] = {
    "revoked": "was revoked",
    "expired": "has expired",
    "disabled": "belongs to an account that is not active",
}
"""Why a key with this status is not in force, to follow "X-API-Key"."""
UNKNOWN = "is not one of this server's keys"
REFUSED = "; keys are set by ORSWEB_API_KEYS or made in the admin"

log = structlog.get_logger(__name__)

OnGone = Callable[[set[str]], None]
"""Called on the keyring's thread with the labels of keys that are no longer in force, or may do
less than before."""
OnLost = Callable[[set[str]], None]
"""Called like OnGone, also for keys that only have another text now: their sessions go on, what is
open does not."""


class Keyring:
    """The keys in force, for any thread."""

    def __init__(self) -> None:
        self._in_force: dict[bytes, AgentKey] = {}
        self._reasons: dict[bytes, str] = {}
        # by label, and kept when a key goes, so that its counts are there if it comes back
        self._usages: dict[str, KeyUsage] = {}
        self._state: tuple[Any, ...] | None = None
        self._read_at = self._noted_at = 0.0
        self._first_uses: deque[tuple[str, Client]] = deque()
        self._day = timezone.now().date()
        self._addresses_of_day = set[tuple[str, str]]()
        self.wrong = WrongKeys()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._unreadable = set[tuple[int, int]]()
        """Id and version of the rows that the log has named, because they cannot be understood."""
        self._problem = ""
        """The last failure, other than of the database."""
        self._on_gone: OnGone = lambda _: None
        self._on_lost = list[OnLost]()

    def check(self, meta: Mapping[str, str], client: Client) -> AgentKey:
        """Return the key in the headers of a request, and note its use; EVERYBODY on a server that
        needs no keys, which listens on loopback only. Raises: KeyRefused."""
        if not conf.has_keys():
            return EVERYBODY
        # no service is open in this process, so nothing keeps the keys up to date
        if self._thread is None:
            self.read()
        text = sent_key(meta)
        digest = hash_key(text)
        key = self._in_force.get(digest)
        if key is None:
            raise self._refusal(text, self._reasons.get(digest, ""), conf.address_of(*client))
        if client != key.last_client:
            key.last_client = client
            if client not in key.clients_of_day and len(key.clients_of_day) < MAX_CLIENTS_A_DAY:
                key.clients_of_day.add(client)
                self._first_uses.append((key.label, client))
        return key

    def _refusal(self, text: str, reason: str, address: str) -> KeyRefused:
        problem = (reason or UNKNOWN) if text else "header is required"
        security_log.note("key_refused", who="", address=address, detail=f"The key {problem}.")
        if text and not reason and (wait := self.wrong.add(address, conf.max_wrong_keys())):
            return KeyRefused(
                f"Too many unknown keys came from this address; try again in {wait} s", wait
            )
        return KeyRefused(f"X-API-Key {problem}{REFUSED}")

    @property
    def usages(self) -> list[KeyUsage]:
        """What the keys in force use, and clients without a key."""
        return [EVERYBODY.usage, *(key.usage for key in self._in_force.values())]

    def usage_of(self, label: str) -> KeyUsage | None:
        """Return what a key in force uses; None if this process serves nothing, or the key is not
        in force."""
        key = self.named(label) if self._thread else None
        return None if key is None else key.usage

    def named(self, label: str) -> AgentKey | None:
        """Return the key in force with this label."""
        return next((key for key in list(self._in_force.values()) if key.label == label), None)

    def current(self, key: AgentKey) -> AgentKey | None:
        """Return what a key that was checked before may do now; None if it, or its text, is no
        longer in force."""
        return self._in_force.get(key.digest) if key.digest else key

    # --- keeping up with the database -------------------------------------------------------------

    def start(self, on_gone: OnGone) -> Future[None]:
        """Start the thread; the returned future is done once the keys have been read."""
        ready: Future[None] = Future()
        self._stopping.clear()
        self._on_gone, self._on_lost = on_gone, []
        self._thread = threading.Thread(
            target=self._follow, args=(ready,), name="keys", daemon=True
        )
        self._thread.start()
        return ready

    def listen(self, on_lost: OnLost) -> None:
        """Let the thread call `on_lost`, too."""
        self._on_lost.append(on_lost)

    def stop(self) -> None:
        """End the thread, which notes the last uses before."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            thread.join(2 * REFRESH_SECONDS)

    def _follow(self, ready: Future[None]) -> None:
        try:
            self.read()
            ready.set_result(None)
        except Exception as error:
            ready.set_exception(error)
            return
        while not self._stopping.wait(REFRESH_SECONDS):
            self._attempt(self._refresh)
        self._attempt(self.note_uses)
        self.note_first_uses()
        connections.close_all()

    def _refresh(self) -> None:
        before = list(self._in_force.values())
        now = time.time()
        for key in before:
            if key.expires is not None and key.expires <= now:
                self._in_force.pop(key.digest)
                self._reasons[key.digest] = REASONS["expired"]
        self._attempt(self._read_changes)
        after = {key.label: key for key in self._in_force.values()}
        gone_labels = {
            key.label
            for key in before
            if key.label not in after or not after[key.label].may_all_of(key)
        }
        if gone_labels:
            log.warning("keys_gone", keys=sorted(gone_labels))
            self._on_gone(gone_labels)
        rotated_labels = {key.label for key in before if key.digest not in self._in_force}
        if labels := gone_labels | rotated_labels:
            for on_lost in self._on_lost:
                on_lost(labels)
        if time.monotonic() - self._noted_at >= NOTE_SECONDS:
            self._attempt(self.note_uses)
        self.note_first_uses()

    def _attempt(self, work: Callable[[], None]) -> None:
        """Do `work`, which the next round repeats if it fails, mostly because the database is away.

        Without this thread no key would expire or be revoked any longer, so nothing ends it.
        """
        try:
            work()
        except Error as error:
            log.debug("keys_not_read", error=type(error).__name__)
            connections.close_all()
        except Exception as error:
            if (problem := repr(error)) != self._problem:  # not twice a second
                self._problem = problem
                log.exception("keys_not_read")

    def _read_changes(self) -> None:
        if time.monotonic() - self._read_at >= MAX_UNREAD_SECONDS or _state() != self._state:
            self.read()

    def read(self) -> None:
        """Read all keys."""
        state = _state()  # before the rows: a change in between is then seen by the next round
        default, private = conf.quotas(), private_names()
        in_force = {
            hash_key(text): AgentKey(
                label,
                scopes_of(SETTINGS_SCOPES),
                hidden_environments=private,
                digest=hash_key(text),
                usage=self._usage(label, default),
            )
            for label, text in conf.settings_keys().items()
        }
        labels, reasons = {key.label for key in in_force.values()}, dict[bytes, str]()
        for row in ApiKey.objects.select_related("owner"):
            try:
                digest = bytes.fromhex(row.digest)
            except ValueError:
                self._note_unreadable(row, "its digest is not 64 hexadecimal digits")
                continue
            if (status := status_of(row)) in REASONS:
                reasons[digest] = REASONS[status]
            elif row.name in labels:
                reasons[digest] = "has the same name as a key of ORSWEB_API_KEYS"
            elif problem := _problem_of(row):
                self._note_unreadable(row, problem)
                reasons[digest] = (
                    "has limits that cannot be understood, which the operator finds in the log"
                )
            else:
                usage = self._usage(row.name, default.replaced(row.quotas))
                in_force[digest] = _key_of(row, private, usage, self._in_force.get(digest))
        for digest, key in in_force.items():
            if before := self._in_force.get(digest):
                key.clients_of_day = before.clients_of_day
        self._in_force, self._reasons = in_force, reasons
        self._state, self._read_at = state, time.monotonic()

    def _note_unreadable(self, row: ApiKey, problem: str) -> None:
        """Log once that the row, which somebody has written around the admin and the commands, is
        no key."""
        if (version := (row.pk, row.version)) not in self._unreadable:
            self._unreadable.add(version)
            log.error("key_not_understood", key=row.name, problem=problem)

    def _usage(self, label: str, quotas: Quotas) -> KeyUsage:
        """Return the usage of the key, with its quotas in force."""
        usage = self._usages.setdefault(label, KeyUsage(label))
        if usage.quotas != quotas:
            usage.apply(quotas)
        return usage

    def note_uses(self) -> None:
        """Write when and from where keys of the database were used since the last note."""
        self._noted_at, now = time.monotonic(), timezone.now()
        for key in list(self._in_force.values()):
            client, key.last_client = key.last_client, None
            if client is not None and key.row is not None:
                ApiKey.objects.filter(pk=key.row).update(
                    last_used=now, last_address=conf.address_of(*client)[:64]
                )

    def note_first_uses(self) -> None:
        """Note in the security log each address from which a key is used for the first time on this
        day (UTC)."""
        if (today := timezone.now().date()) != self._day:
            self._day = today
            self._addresses_of_day.clear()
            for key in list(self._in_force.values()):
                key.clients_of_day.clear()
        for _ in range(len(self._first_uses)):
            label, client = self._first_uses.popleft()
            use = (label, conf.address_of(*client))
            if use not in self._addresses_of_day:
                self._addresses_of_day.add(use)
                security_log.note("key_used", who=label, address=use[1])


_STATE = """
    SELECT COUNT(*), MAX(k.id), SUM(k.version), SUM(CASE WHEN u.is_active THEN u.id ELSE 0 END)
    FROM environments_apikey k LEFT JOIN auth_user u ON u.id = k.owner_id
"""
_PRIVATE = "SELECT id, name FROM environments_environment WHERE is_private ORDER BY id"


def _state() -> tuple[Any, ...]:
    """Return figures that change whenever a key, the activity of an owner or what is private
    changes."""
    # plain SQL, because Django's would cost several times the query
    with connection.cursor() as cursor:
        cursor.execute(_STATE)
        keys = cursor.fetchone()
        cursor.execute(_PRIVATE)
        return (*keys, *cursor.fetchall())


def _problem_of(row: ApiKey) -> str:
    """Return what in the row's JSON cannot be understood, so that the key must not be in force;
    empty if all can."""
    for name in ("scopes", "environments", "splits"):
        value = getattr(row, name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            return f"{name} is {shorten(repr(value), 80)}; it has to be a list of texts"
    quotas = row.quotas
    if not isinstance(quotas, dict) or not all(
        type(limit) is int and limit >= 0 for limit in quotas.values()
    ):
        return f"quotas is {shorten(repr(quotas), 80)}; it has to be an object of whole numbers"
    return ""


def _key_of(
    row: ApiKey, private: Mapping[str, int], usage: KeyUsage, before: AgentKey | None
) -> AgentKey:
    scopes = scopes_of(row.scopes)
    environments = frozenset(name.lower() for name in row.environments)
    hidden_ids = {name: pk for name, pk in private.items() if name not in environments}
    return AgentKey(
        label=row.name,
        scopes=scopes,
        environments=environments or None,
        hidden_environments={} if ADMIN in scopes else hidden_ids,
        splits=frozenset(row.splits) if row.splits else None,
        run=row.run,
        expires=row.expires.timestamp() if row.expires else None,
        digest=bytes.fromhex(row.digest),
        row=row.pk,
        usage=usage,
        last_client=before.last_client if before else None,
    )


ring = Keyring()
"""The keys of this process."""
