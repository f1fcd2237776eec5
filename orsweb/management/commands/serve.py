"""`manage.py serve`: host environments on one port until SIGTERM or Ctrl-C.

If it cannot start, it prints one sentence to stderr and exits with status 1. After SIGTERM or
Ctrl-C the status is 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandParser
from django.db import DatabaseError, connection

from environments import conf
from environments.authoring.registry import Registry
from environments.authoring.revision import note_revisions
from environments.display.terminal import TerminalCommand
from environments.display.visible import visible
from environments.errors import Unhostable, author_traceback, shorten
from environments.hosts import masked_output
from environments.hosts.every_host import EveryHost
from environments.hosts.loading import load
from environments.local_sandboxes.service import sandboxes
from environments.models import Environment
from environments.runtime.records import RETURN_SECONDS
from environments.runtime.threads import ThreadPool
from environments.schemas.callable_names import uncallable_names
from environments.schemas.object_schemas import unsent_schemas
from environments.service import get_service
from environments.tasks.sync import Begin, check_tasks, declared_columns
from environments.tasks.sync_report import UnlistableTasks
from orsweb.server import (
    database_lock,
    exposure,
    forks,
    listening,
    pending_migrations,
    succession,
    uvicorn_server,
)
from orsweb.server.database_lock import DatabaseInUse
from orsweb.server.pending_migrations import NotMigrated
from orsweb.server.server_process import ServerPlace, ServerProcess
from orsweb.server.succession import Predecessor
from orsweb.server.supervisor import Supervisor
from orsweb.server.timed_check import go_on_watched

MAX_SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket on Linux."""
MAX_NAMED_CHARACTERS = 200
"""Length of what a sentence names of the classes that are imported."""

_BANNER = """
orsweb is ready: {url}  (Ctrl-C stops it)

  environments  {environments}{unavailable}
  database      {database}{processes}
  admin         {url}/admin/

Code for each client is on {url}/#connect. With ors-sdk:

  from ors.client import ORS
  client = ORS(base_url="{origin}"{key})  # keep it: its connections close with it
  environment = client.environment("{default}")
"""


class Command(TerminalCommand):
    help = "Serve environments over the Open Reward Standard."
    requires_system_checks = []  # they take a second; developers run them with `manage.py check`

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "environments",
            nargs="*",
            metavar="module:Class",
            help="classes to host, the default first, or path/to/repository, or environments of "
            "other ORS servers as http://host:port/environment; name=… renames one, and "
            "module:Class@python plays it with another interpreter (default: ORSWEB_ENVIRONMENTS)",
        )
        parser.add_argument(
            "--host",
            default=settings.ORSWEB_HOST,
            help="address to listen on (default: %(default)s)",
        )
        parser.add_argument(
            "--port",
            default=settings.ORSWEB_PORT,
            type=int,
            help="port to listen on; 0 chooses a free one (default: %(default)s)",
        )

        parser.add_argument(
            "--check",
            action="store_true",
            help="see whether the environments can be served, without serving them",
        )

    def handle(
        self, *, environments: list[str], host: str, port: int, check: bool, **options: Any
    ) -> None:
        if check:
            settings.ORSWEB_ENVIRONMENTS = environments or settings.ORSWEB_ENVIRONMENTS
            masked_output.start_for(self)
            _check(host, go_on_watched(settings.ORSWEB_RELOAD_LIMIT))
            return
        before = succession.inherited()
        listeners = before.listeners if before else listen(host, port, conf.processes())
        # the rest of the program reads these from settings only
        settings.ORSWEB_HOST, settings.ORSWEB_PORT = host, listeners[0][0].getsockname()[1]
        settings.ORSWEB_ENVIRONMENTS = environments or settings.ORSWEB_ENVIRONMENTS
        # the servers that hand over to those of this program
        seconds = settings.ORSWEB_RELOAD_WAIT + settings.ORSWEB_SHUTDOWN_TIMEOUT
        servers = before.servers if before else {}
        predecessors = [Predecessor(number, pid, seconds) for number, pid in servers.items()]
        supervisor = Supervisor(
            _places(listeners, predecessors),
            settings.ORSWEB_SHUTDOWN_TIMEOUT,
            settings.ORSWEB_STARTING_SILENCE,
            conf.process_directory(),
            predecessors,
            settings.ORSWEB_RELOAD_LIMIT,
        )
        if before is not None or conf.processes() > 1:
            import orsweb.asgi  # noqa: F401  # once for all servers, and while those before them serve
        supervisor.run(self._serve)

    def _serve(self, server: ServerProcess) -> None:
        """Serve in this process, whose supervisor watches the server's heartbeat."""
        settings.ORSWEB_CLUSTER = server.place.address
        masked_output.start()
        try:
            if pending_migrations.is_behind():
                with database_lock.acquire():
                    # meanwhile the supervisor answers clients that have waited too long
                    server.heartbeat.begin_to_migrate(is_first=pending_migrations.is_first_start())
                    pending_migrations.migrate()
            with sandboxes(conf.sandboxes()):
                self._run(server)
        except uvicorn_server.StartFailed as failure:
            _explain(failure.__cause__ or failure)
        except (DatabaseInUse, NotMigrated, DatabaseError, Unhostable) as error:
            _explain(error)

    def _run(self, server: ServerProcess) -> None:
        from orsweb import asgi  # builds the handlers, which read the settings made above

        def on_ready() -> None:
            if server.place.number % conf.processes() == 0:  # it speaks for the others
                self._print_banner()
            loading = threading.Timer(
                RETURN_SECONDS if get_service().live_sessions else 0.0, asgi.load_pages
            )
            loading.name, loading.daemon = "pages", True
            loading.start()

        connection.close()
        with _peer_listeners() as peers:
            forks.keep_all(map(forks.address_of, [*server.place.listeners, *peers]))
            uvicorn_server.run(
                asgi.application,
                asgi.protocol,
                [*server.place.listeners, *peers],
                on_ready,
                server.heartbeat,
            )

    def _print_banner(self) -> None:
        registry = get_service().registry
        names = registry.names
        unavailable = "".join(
            f"\n                {name} is unavailable: {reason}"
            for name in names
            if (reason := registry.get(name).unavailable)
        )
        config = connection.settings_dict
        database = str(config["NAME"])
        if connection.vendor != "sqlite":
            host = config["HOST"] or "localhost"
            database = f"{connection.display_name} {database} on {host}"
        count = conf.processes()
        origin = f"http://{_reachable_host()}:{settings.ORSWEB_PORT}"
        text = _BANNER.format(
            url=f"{origin}{conf.path_prefix()}",
            origin=origin,
            environments=", ".join(names),
            unavailable=unavailable,
            database=database,
            processes=f"\n  processes     {count}, on one port" if count > 1 else "",
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


def _check(host: str, begin: Begin) -> None:
    """Load what a server on `host` loads, and read the tasks. Raises: SystemExit with a sentence on
    what is wrong."""
    import orsweb.asgi  # noqa: F401

    if refusal := exposure.refusal_of(host) or _refusal_of_processes():
        _fail(refusal)
    specifications = conf.specifications()
    begin(f"The import of {shorten(', '.join(specifications), MAX_NAMED_CHARACTERS)}")
    try:
        registry = load(specifications, conf.loading())
        for environment in registry:
            if environment.is_described:
                declared_columns(environment)
                schemas = environment.tool_schemas
                for sentence in [*uncallable_names(schemas), *unsent_schemas(schemas)]:
                    print(f"{environment.name}: {sentence}", file=sys.stderr)
        note_revisions(registry, conf.version())
        for failure in asyncio.run(_check_tasks(registry, begin)):
            print(
                f"{failure} The running server cannot play it either, so a reload is not refused.",
                file=sys.stderr,
            )
    except (Unhostable, ImproperlyConfigured, DatabaseError) as error:
        _explain(error)
    begin("The end of the check")


async def _check_tasks(registry: Registry, begin: Begin) -> list[UnlistableTasks]:
    """Return the failures of classes that the running server cannot play either.

    Raises: Unhostable, for any other class; DatabaseError.
    """
    is_running = succession.read_state(conf.process_directory()) is not None
    names = Environment.objects.unavailable().values_list("name", flat=True)
    unavailable = [name async for name in names] if is_running else []
    pool = ThreadPool()
    host = EveryHost(registry, pool, conf.limits())
    try:
        return await check_tasks(registry, host, begin, unavailable)
    finally:
        await host.close()
        pool.close()


def _refusal_of_processes() -> str:
    """Return the sentence that refuses several servers; empty if there is one, or the database can
    have them."""
    count = conf.processes()
    if count == 1:
        return ""
    return database_lock.refusal_to_share(f"ORSWEB_PROCESSES={count} asks for {count} servers")


def _places(
    listeners: list[list[socket.socket]], predecessors: list[Predecessor]
) -> list[ServerPlace]:
    """Return the places of the servers. Of several, each has another number than the one before it,
    which serves."""
    places = list[ServerPlace]()
    old_numbers = {predecessor.number for predecessor in predecessors}
    for number, sockets in enumerate(listeners):
        if len(listeners) > 1 and number in old_numbers:
            number += len(listeners)
        address = conf.process_address(number)
        places.append(ServerPlace(number, sockets, address, conf.process_directory(address)))
    return places


def listen(host: str, port: int, servers: int = 1) -> list[list[socket.socket]]:
    """Bind the sockets of each server. Raises: SystemExit with a sentence that says why it
    cannot."""
    if refusal := exposure.refusal_of(host) or _refusal_of_processes():
        _fail(refusal)
    try:
        return listening.listen(host, port, servers)
    except socket.gaierror:
        _fail(
            f"Host {host!r} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all "
            "addresses."
        )
    except OverflowError:
        _fail(f"Port {port} does not exist; use one from 1 to 65535, or 0 for any free port.")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            _fail(
                f"Port {port} of {host} is in use; stop what uses it, or choose another port "
                "with --port."
            )
        _fail(f"Cannot listen on {host}, port {port}: {os.strerror(error.errno or 0)}.")


@contextlib.contextmanager
def _peer_listeners() -> Iterator[list[socket.socket]]:
    """Listen where other servers of the database reach this one. They find it dead when this
    process does not listen.

    Raises: SystemExit.
    """
    address = conf.cluster_address()
    if address.startswith("/"):
        if len(os.fsencode(address)) > MAX_SOCKET_PATH_BYTES:
            _fail(
                f"The path {address} is too long for a socket; set ORSWEB_CLUSTER to a shorter "
                "one, such as /run/orsweb/one."
            )
        with listening.listen_at(Path(address)) as listener:
            yield [listener]
    elif address:
        host, _, port = address.rpartition(":")
        yield listen(host.strip("[]"), int(port))[0]
    else:
        yield []


def _explain(error: BaseException) -> NoReturn:
    """Exit with the message of an error that the operator can fix; raise any other error."""
    if isinstance(error, Unhostable) and (trace := author_traceback(error.__cause__)):
        print(visible(trace), file=sys.stderr)
    if isinstance(error, Unhostable | DatabaseInUse | NotMigrated | ImproperlyConfigured):
        _fail(str(error))
    if isinstance(error, DatabaseError):
        _fail(f"The database cannot be used: {' '.join(str(error).split()).rstrip('.?')}.")
    raise error


def _fail(sentence: str) -> NoReturn:
    # what hosted code has printed comes before the sentence, of which a reload reads the last line
    sys.stdout.flush()
    raise SystemExit(sentence)
