"""`manage.py serve`: host environments on one port until SIGTERM or Ctrl-C.

If it cannot start, it prints one sentence to stderr and exits with status 1. After SIGTERM or Ctrl-C the status is 0.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError, connection

from environments import conf
from environments.errors import Unhostable
from environments.hosts.loading import load
from environments.service import get_service
from orsweb.server import database_lock, exposure, pending_migrations, succession, uvicorn_server
from orsweb.server.database_lock import DatabaseInUse
from orsweb.server.pending_migrations import NotMigrated
from orsweb.server.pulse import Pulse
from orsweb.server.supervisor import Supervisor

_BANNER = """
orsweb is ready: {url}  (Ctrl-C stops it)

  environments  {environments}{unavailable}
  database      {database}
  admin         {url}/admin/

Code for each client is on {url}/#connect. With ors-sdk:

  from ors.client import ORS
  client = ORS(base_url="{url}"{key})  # keep it: its connections close with it
  environment = client.environment("{default}")
"""


class Command(BaseCommand):
    help = "Serve environments over the Open Reward Standard."
    requires_system_checks = []  # they take a second; developers run them with `manage.py check`

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "environments",
            nargs="*",
            metavar="module:Class",
            help="classes to host, the default first, or environments of other ORS servers as "
            "http://host:port/environment; name=… renames one, and module:Class@python plays it with another "
            "interpreter (default: ORSWEB_ENVIRONMENTS)",
        )
        parser.add_argument("--host", default=settings.ORSWEB_HOST, help="address to listen on (default: %(default)s)")
        parser.add_argument(
            "--port",
            default=settings.ORSWEB_PORT,
            type=int,
            help="port to listen on; 0 chooses a free one (default: %(default)s)",
        )

        parser.add_argument(
            "--check", action="store_true", help="see whether the environments can be served, without serving them"
        )

    def handle(self, *, environments: list[str], host: str, port: int, check: bool, **options: Any) -> None:
        if check:
            settings.ORSWEB_ENVIRONMENTS = environments or settings.ORSWEB_ENVIRONMENTS
            _check(host)
            return
        before = succession.inherited()
        listeners = before.listeners if before else listen(host, port)
        # The rest of the program reads these from settings only.
        settings.ORSWEB_HOST, settings.ORSWEB_PORT = host, listeners[0].getsockname()[1]
        settings.ORSWEB_ENVIRONMENTS = environments or settings.ORSWEB_ENVIRONMENTS
        limits = settings.ORSWEB_SHUTDOWN_TIMEOUT, settings.ORSWEB_STARTING_SILENCE
        supervisor = Supervisor(listeners, *limits, conf.process_directory())
        if before is not None:
            import orsweb.asgi  # noqa: F401  # so that the next server starts sooner, while the present one serves

            supervisor.hand_over(before.server, settings.ORSWEB_RELOAD_WAIT)
        supervisor.run(partial(self._serve, listeners))

    def _serve(self, listeners: list[socket.socket], pulse: Pulse) -> None:
        """Serve in this process, whose supervisor watches `pulse`."""
        try:
            self._migrate()
            self._run(listeners, pulse)
        except uvicorn_server.StartFailed as failure:
            _explain(failure.__cause__ or failure)
        except (DatabaseInUse, NotMigrated, DatabaseError) as error:
            _explain(error)

    def _migrate(self) -> None:
        if pending_migrations.is_behind():
            with database_lock.acquire():
                pending_migrations.migrate()

    def _run(self, listeners: list[socket.socket], pulse: Pulse) -> None:
        from orsweb import asgi  # builds the handlers, which read the settings made above

        def on_ready() -> None:
            self._print_banner()
            threading.Thread(target=asgi.load_pages, name="pages", daemon=True).start()

        connection.close()
        with _peer_listeners() as peers:
            uvicorn_server.run(asgi.application, asgi.agents, [*listeners, *peers], on_ready, pulse)

    def _print_banner(self) -> None:
        registry = get_service().registry
        names = registry.names
        reasons = [(name, registry.get(name).unavailable) for name in names]
        text = _BANNER.format(
            url=f"http://{_reachable_host()}:{settings.ORSWEB_PORT}",
            environments=", ".join(names),
            unavailable="".join(f"\n                {name} is unavailable: {why}" for name, why in reasons if why),
            database=_database_name(),
            default=names[0],
            key=', api_key="YOUR-KEY"' if conf.has_keys() else "",
        )
        self.stdout.write(text)
        self.stdout.flush()


def _reachable_host() -> str:
    """Return a host name for URLs, under which the server can be reached."""
    host: str = settings.ORSWEB_HOST
    if host in ("0.0.0.0", "::"):  # nosec B104 # compared, not bound
        names = [name for name in settings.ORSWEB_ALLOWED_HOSTS if name[0] not in ".*"]
        host = names[0] if names else {"0.0.0.0": "127.0.0.1", "::": "::1"}[host]  # nosec B104 # compared, not bound
    return f"[{host}]" if ":" in host else host


def _check(host: str) -> None:
    """Load what a server on `host` loads. Raises: SystemExit with a sentence that says what is wrong."""
    import orsweb.asgi  # noqa: F401

    if refusal := exposure.refusal_of(host):
        _fail(refusal)
    try:
        load(conf.specifications(), conf.remote_keys())
    except (Unhostable, ImproperlyConfigured) as error:
        _explain(error)


def listen(host: str, port: int) -> list[socket.socket]:
    """Bind the sockets of the server. Raises: SystemExit with a sentence that says why that is not possible."""
    if refusal := exposure.refusal_of(host):
        _fail(refusal)
    try:
        return uvicorn_server.listen(host, port)
    except socket.gaierror:
        _fail(f"Host {host!r} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all addresses.")
    except OverflowError:
        _fail(f"Port {port} does not exist; use one from 1 to 65535, or 0 for any free port.")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            _fail(f"Port {port} of {host} is in use; stop what uses it, or choose another port with --port.")
        _fail(f"Cannot listen on {host}, port {port}: {os.strerror(error.errno or 0)}.")


@contextlib.contextmanager
def _peer_listeners() -> Iterator[list[socket.socket]]:
    """Listen where other servers of the database reach this one. They find it dead when this process does not listen.

    Raises: SystemExit.
    """
    address = conf.cluster_address()
    if address.startswith("/"):
        with uvicorn_server.listen_at(Path(address)) as listener:
            yield [listener]
    elif address:
        host, _, port = address.rpartition(":")
        yield listen(host.strip("[]"), int(port))
    else:
        yield []


def _database_name() -> str:
    """Return the database as its operator knows it, without the password."""
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return str(Path(database["NAME"]))
    return f"{connection.display_name} {database['NAME']} on {database['HOST'] or 'localhost'}"


def _explain(error: BaseException) -> NoReturn:
    """Exit with the message of an error that the operator can fix; raise any other error."""
    if isinstance(error, Unhostable | DatabaseInUse | NotMigrated | ImproperlyConfigured):
        _fail(str(error))
    if isinstance(error, DatabaseError):
        _fail(f"The database cannot be used: {' '.join(str(error).split()).rstrip('.?')}.")
    raise error


def _fail(sentence: str) -> NoReturn:
    raise SystemExit(sentence)
