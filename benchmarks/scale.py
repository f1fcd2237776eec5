"""`python -m benchmarks scale`: the cost model of docs/scale.md, and how well it predicts a larger
load.

Two servers share a PostgreSQL database. Each cost is CPU time of both servers and of PostgreSQL,
divided by how often something was done; rounds alternate, and the median counts. What arrives
together is committed together, so a commit has a cost of its own: the difference between few agents
and many tells it from that of a call. The model then
predicts what several times as many agents cost that do everything at once; only their commits are
counted.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median

import psycopg

from benchmarks.meters import Reading
from benchmarks.servers import ENV, ROOT, Workshop

TEXT = "x" * 200
CALLS = 10
"""Calls of a session in the load that is predicted."""
FEWER = 4
"""How many times fewer agents the few are."""
PAGES = 4
STEPS = 3000
"""Steps that are stored to see how large one is."""
EPISODES = 4
"""Episodes of each agent in that load."""
MAX_ERROR = 0.25


@dataclass(frozen=True)
class Cost:
    """What something costs, or what it costs once."""

    cpu: Mapping[str, float]
    """CPU seconds, by what takes them."""
    commits: float

    @property
    def seconds(self) -> float:
        return sum(self.cpu.values())

    def once(self, times: int) -> Cost:
        return Cost({of: seconds / times for of, seconds in self.cpu.items()}, self.commits / times)


@dataclass(frozen=True)
class CostModel:
    """CPU seconds, once, without commits."""

    commit: float
    call: float
    passing_on: float
    session: float

    def predicted(self, cost: Cost) -> float:
        """Return what an episode of the check costs, which has as many commits as `cost`."""
        return (
            self.session
            + CALLS * self.call
            + CALLS / 5 * self.passing_on
            + self.commit * cost.commits
        )


@dataclass(frozen=True)
class Pair:
    """Two servers on one database."""

    ports: tuple[int, int]
    processes: Mapping[str, int]
    url: str

    def cost(self, action: Callable[[], None]) -> Cost:
        before, commits = Reading.of(self.processes), self._commits()
        action()
        return Cost((Reading.of(self.processes) - before).watched, self._commits() - commits)

    def _commits(self) -> float:
        """Return how many transactions both servers have committed."""
        return sum(_commits_of(port) for port in self.ports)

    def asked(self, sql: str) -> float:
        with psycopg.connect(self.url) as connection:
            [value] = connection.execute(sql).fetchone() or [0]
            return float(value)


class Agent:
    """Plays one session after the other at a server, and can send calls to another one."""

    def __init__(self, ports: tuple[int, int]) -> None:
        self._connections = [
            http.client.HTTPConnection("127.0.0.1", port, timeout=120) for port in ports
        ]
        self._headers = {"Content-Type": "application/json"}

    def open(self) -> None:
        self._headers["X-Session-ID"] = uuid.uuid4().hex
        self._ask(0, "/create", {"env_name": "echo", "split": "train", "index": 0})

    def call(self, server: int = 0) -> None:
        self._ask(server, "/echo/call", {"name": "echo", "input": {"text": TEXT}})

    def end(self) -> None:
        self._ask(0, "/delete", {})

    def renew(self) -> None:
        self.end()
        self.open()

    def health(self) -> None:
        self._ask(0, "/health")

    def _ask(self, server: int, path: str, body: object = None) -> None:
        connection = self._connections[server]
        content = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, content, self._headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {answer.read()[:200]!r}")
        answer.read()


def main(arguments: Sequence[str]) -> int:
    """Print the model and the check. Returns the exit status: 1 if the prediction is off by more
    than a quarter."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--repeats", type=int, default=400, help="how often each thing is done in a round"
    )
    parser.add_argument(
        "--agents", type=int, default=16, help="how many agents the model is made with"
    )
    parser.add_argument(
        "--times",
        type=int,
        default=10,
        help="how many times as many agents the model is checked with",
    )
    options = parser.parse_args(arguments)
    with Workshop() as workshop, _pair(workshop) as pair:
        _print_sizes(pair, options.agents)
        few = _costs(pair, options.rounds, options.repeats, options.agents // FEWER)
        many = _costs(pair, options.rounds, options.repeats, options.agents)
        for agents, costs in ((options.agents // FEWER, few), (options.agents, many)):
            _print_costs(costs, agents)
        model = _fitted(few, many)
        _print_model(model)
        pages = _pages(pair, options.rounds)
        print(f"  an open page while an agent plays: {1e3 * pages:.1f} CPU ms a second")
        return int(not _check(pair, model, options.agents * options.times))


@contextlib.contextmanager
def _pair(workshop: Workshop) -> Iterator[Pair]:
    postgres = workshop.postgres()
    url, directory = postgres.fresh(), workshop.data_directory()
    settings = {"DATABASE_URL": url, "ORSWEB_FOLLOWER": "thread"}
    with contextlib.ExitStack() as stack:
        started = []
        for name in ("one", "two"):
            own = settings | {"ORSWEB_CLUSTER": str(directory / f"{name}.sock")}
            started.append(stack.enter_context(workshop.serving([f"echo={ENV}"], directory, own)))
        processes = {"servers": started[0][2], "the other": started[1][2]}
        if postgres.pid:
            processes["PostgreSQL"] = postgres.pid
        yield Pair((started[0][0], started[1][0]), processes, url)


# --- the model ------------------------------------------------------------------------------------


def _costs(pair: Pair, rounds: int, repeats: int, agents: int) -> Mapping[str, Cost]:
    """Return the cost of each thing, once, while so many agents do it."""
    actions: Mapping[str, Callable[[Agent], None]] = {
        "GET /health": Agent.health,
        "a call": Agent.call,
        "a call that is passed on": lambda agent: agent.call(1),
        "a session without calls": Agent.renew,
    }
    found: dict[str, list[Cost]] = {name: [] for name in actions}
    playing, each = [Agent(pair.ports) for _ in range(agents)], repeats // agents
    for agent in playing:
        agent.open()
        agent.call(1)
    for turn in range(rounds + 1):
        for name, action in actions.items():
            cost = pair.cost(lambda action=action: _together(playing, action, each))  # type: ignore[misc]
            if turn:  # the first round loads code and plans statements
                found[name].append(cost.once(each * agents))
    for agent in playing:
        agent.end()
    return {name: _middle(samples) for name, samples in found.items()}


def _middle(samples: Sequence[Cost]) -> Cost:
    cpu = {of: median(sample.cpu[of] for sample in samples) for of in samples[0].cpu}
    return Cost(cpu, median(sample.commits for sample in samples))


def _fitted(few: Mapping[str, Cost], many: Mapping[str, Cost]) -> CostModel:
    less, more = few["a call"], many["a call"]
    commit = (less.seconds - more.seconds) / (less.commits - more.commits)
    rest = {name: cost.seconds - commit * cost.commits for name, cost in many.items()}
    call = rest["a call"]
    return CostModel(
        commit, call, rest["a call that is passed on"] - call, rest["a session without calls"]
    )


def _together(agents: Sequence[Agent], action: Callable[[Agent], None], count: int) -> None:
    def repeat(agent: Agent) -> None:
        for _ in range(count):
            action(agent)

    with ThreadPoolExecutor(len(agents)) as threads:
        list(threads.map(repeat, agents))


def _print_costs(costs: Mapping[str, Cost], agents: int) -> None:
    print(f"CPU ms, once, {agents} agents")
    for name, cost in costs.items():
        parts = ", ".join(f"{of} {1e3 * seconds:.2f}" for of, seconds in cost.cpu.items())
        print(f"  {name}: {1e3 * cost.seconds:.2f} ({parts}; {cost.commits:.2f} commits)")
    health, call = costs["GET /health"].seconds, costs["a call"].seconds
    more = costs["a call that is passed on"].seconds - call
    print(
        f"  passing on costs {1e3 * more:.2f}: {more / health:.2f} times GET /health, "
        f"{more / call:.2f} times a call"
    )


def _print_model(model: CostModel) -> None:
    print(
        f"the model, CPU ms: a commit {1e3 * model.commit:.2f}, a call {1e3 * model.call:.2f}, "
        "passing it on "
        f"{1e3 * model.passing_on:.2f}, a session {1e3 * model.session:.2f}"
    )


def _print_sizes(pair: Pair, agents: int) -> None:
    playing = [Agent(pair.ports) for _ in range(agents)]
    for agent in playing:
        agent.open()
    size, written = (
        "SELECT pg_database_size(current_database())",
        "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn",
    )
    before = pair.asked(size), pair.asked(written)
    _together(playing, Agent.call, STEPS // agents)
    after = pair.asked(size), pair.asked(written)
    for agent in playing:
        agent.end()
    stored, log = (
        (there - here) / (STEPS // agents * agents)
        for here, there in zip(before, after, strict=True)
    )
    print(
        f"a stored step with {len(TEXT)} characters: {stored:.0f} bytes, {log:.0f} bytes of the "
        "write-ahead log"
    )


def _pages(pair: Pair, rounds: int, seconds: float = 5.0) -> float:
    """Return the CPU seconds a second of one open page, half of them Episodes, half Overview, while
    an agent plays."""
    agent = Agent(pair.ports)
    agent.open()
    found: dict[int, list[float]] = {0: [], PAGES: []}
    for _ in range(rounds):
        for pages, samples in found.items():
            command = [sys.executable, "-m", "benchmarks.viewers", str(pair.ports[0]), str(pages)]
            with subprocess.Popen(command, cwd=ROOT) as viewers:
                time.sleep(2)  # they open the pages
                samples.append(pair.cost(lambda: _paced(agent, seconds)).seconds / seconds)
                viewers.kill()
    return (median(found[PAGES]) - median(found[0])) / PAGES


def _paced(agent: Agent, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        agent.call()
        time.sleep(0.05)


# --- the check ------------------------------------------------------------------------------------


def _check(pair: Pair, model: CostModel, agents: int) -> bool:
    """Compare what many agents cost, a fifth of whose calls are passed on, with the prediction."""

    def play(agent: Agent) -> None:
        agent.open()
        for number in range(CALLS):
            agent.call(int(number % 5 == 4))
        agent.end()

    playing = [Agent(pair.ports) for _ in range(agents)]
    _together(playing, play, 1)
    cost = pair.cost(lambda: _together(playing, play, EPISODES)).once(agents * EPISODES)
    predicted = model.predicted(cost)
    off = predicted / cost.seconds - 1
    print(f"{agents} agents, an episode of {CALLS} calls with {cost.commits:.1f} commits:")
    print(f"  {1e3 * cost.seconds:.2f} CPU ms, predicted {1e3 * predicted:.2f}")
    verdict = "PASS" if abs(off) <= MAX_ERROR else "FAIL"
    print(f"  {verdict}  the prediction is off by {off:+.0%} (target: {MAX_ERROR:.0%})")
    return abs(off) <= MAX_ERROR


def _commits_of(port: int) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return float(text.partition("\norsweb_commit_seconds_count ")[2].partition("\n")[0])
