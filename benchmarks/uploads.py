"""Cost of uploads (POST /v1/rollouts): CPU time per message, and what they do to the latency of
playing agents.

    python -m benchmarks.uploads [--seconds 5] [--rounds 3] [--messages-per-second 1000] [--only
    cost|play|large]

`large` uploads one message of 10 MB, then one of 30 MB, a second while agents play. The others send
messages of 500 bytes in batches of 128, as openreward's recorder does. The reference server, which
takes no uploads, only shows how fast this machine is: the target is 0.12 CPU ms a message where the
reference takes 12.3 CPU ms an episode. Runs on SQLite; the commands print medians.
"""

from __future__ import annotations

import argparse
import http.client
import json
import threading
import time
import uuid
from statistics import median

from benchmarks.load import Load
from benchmarks.meters import Reading
from benchmarks.scenarios import drive
from benchmarks.servers import Workshop

REFERENCE_CPU_MS = 12.3
TARGET_CPU_MS = 0.12
MAX_GROWTH = 0.10
BATCH = 128
TEXT = "x" * 500
MESSAGES_PER_ROLLOUT = 24
CONNECTIONS = 4


class Uploads:
    """Rollouts that are uploaded over several connections, as fast as possible or at a fixed
    rate."""

    def __init__(self, port: int, messages_per_second: float | None = None) -> None:
        self._pause = messages_per_second and BATCH / messages_per_second * CONNECTIONS
        self._port = port
        self._is_over = threading.Event()
        self.sent = 0
        self._threads = [
            threading.Thread(target=self._send, daemon=True) for _ in range(CONNECTIONS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        bodies = [_body() for _ in range(40)]
        number = 0
        while not self._is_over.is_set():
            start = time.perf_counter()
            # new ids in place of parsing and writing JSON again, which would take more than the
            # server does
            body = bodies[number % len(bodies)].replace(
                b"-0000-", b"-%04x-" % (number // len(bodies))
            )
            connection.request(
                "POST", "/v1/rollouts", body, {"Content-Type": "application/json", "X-API-Key": ""}
            )
            answer = connection.getresponse()
            stored = json.loads(answer.read())["stored"]
            assert (answer.status, stored) == (200, BATCH)
            self.sent += BATCH
            number += 1
            if self._pause:
                self._is_over.wait(max(0.0, start + self._pause - time.perf_counter()))
        connection.close()


def _body() -> bytes:
    """Return a batch of messages; `0000` in its ids is free to be replaced."""
    events = []
    for number in range(BATCH):
        if number % MESSAGES_PER_ROLLOUT == 0:
            rollout = _id()
        kind = ("assistant_message", "tool_call", "tool_result")[number % 3]
        events.append(
            {
                **{
                    "eventId": _id(),
                    "timestamp": 1_700_000_000_000,
                    "index": number % MESSAGES_PER_ROLLOUT,
                },
                **{
                    "rolloutEventId": rollout,
                    "type": kind,
                    "content": TEXT,
                    "environment_id": "echo",
                },
                **{"isFinished": False, "metadata": {}, "eventType": "message"},
            }
        )
    return json.dumps({"events": events}).encode()


def _id() -> str:
    first, _, *rest = str(uuid.uuid4()).split("-")
    return "-".join([first, "0000", *rest])


def cost(workshop: Workshop, seconds: float) -> tuple[float, float]:
    """Return CPU ms and wall ms per message."""
    with workshop.started("ours") as (port, processes):
        uploads = Uploads(port)
        time.sleep(1)
        before, sent = Reading.of(processes), uploads.sent
        time.sleep(seconds)
        spent, count = Reading.of(processes) - before, uploads.sent - sent
        uploads.stop()
    return spent.watched["server"] * 1000 / count, spent.wall * 1000 / count


def p99_of(workshop: Workshop, seconds: float, rate: float) -> tuple[float, float]:
    """Return call p99 and CPU ms per episode of 32 agents while `rate` messages a second are
    uploaded."""
    with workshop.started("ours") as (port, processes):
        uploads = Uploads(port, rate) if rate else None
        sample = drive(Load(seconds=seconds, port=port, processes=processes))
        if uploads:
            uploads.stop()
    return sample.p99_ms, sample.cpu_ms_per_episode["server"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages-per-second", type=float, default=1000.0)
    parser.add_argument("--only", choices=["cost", "play", "large"])
    options = parser.parse_args()
    with Workshop() as workshop:
        if options.only in (None, "cost"):
            _print_cost(workshop, options)
        if options.only in (None, "play"):
            _print_play(workshop, options)
        if options.only in (None, "large"):
            _print_large(workshop, options)


def _print_cost(workshop: Workshop, options: argparse.Namespace) -> None:
    references, costs = [], []
    for _ in range(options.rounds):
        with workshop.started("reference") as (port, processes):
            sample = drive(Load(seconds=options.seconds, port=port, processes=processes))
        references.append(sample.cpu_ms_per_episode["server"])
        costs.append(cost(workshop, options.seconds)[0])
    reference, ours = median(references), median(costs)
    bound = TARGET_CPU_MS * reference / REFERENCE_CPU_MS
    print(
        f"reference {reference:.2f} CPU ms an episode; a message {ours:.4f} CPU ms (target "
        f"{bound:.4f})",
        flush=True,
    )


def _print_play(workshop: Workshop, options: argparse.Namespace) -> None:
    alone, beside = [], []
    for _ in range(options.rounds):
        alone.append(p99_of(workshop, options.seconds, 0))
        beside.append(p99_of(workshop, options.seconds, options.messages_per_second))
        print(f"  alone p99 {alone[-1][0]:.1f} ms, with uploads {beside[-1][0]:.1f} ms", flush=True)
    growth = median(p99 for p99, _ in beside) / median(p99 for p99, _ in alone) - 1
    print(f"32 agents: call p99 grows by {growth:+.0%} (target: less than {MAX_GROWTH:.0%})")


class LargeMessages:
    """One message of many bytes after another, each in a body of its own, once a second."""

    def __init__(self, port: int, size: int) -> None:
        self._port, self._size, self._is_over = port, size, threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _send(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        line = 'größer = "a"  # many escapes and umlauts\n'
        [event] = json.loads(_body())["events"][:1]
        event["content"] = line * (self._size // len(json.dumps(line, ensure_ascii=False).encode()))
        body = json.dumps({"events": [event]}, ensure_ascii=False).encode()
        number = 0
        while not self._is_over.wait(1.0):
            number += 1
            sent = body.replace(b"-0000-", b"-%04x-" % number, 2)
            connection.request(
                "POST", "/v1/rollouts", sent, {"Content-Type": "application/json", "X-API-Key": ""}
            )
            answer = connection.getresponse()
            assert json.loads(answer.read())["stored"] == 1
        connection.close()


def _print_large(workshop: Workshop, options: argparse.Namespace) -> None:
    for megabytes in (0, 10, 30):
        with workshop.started("ours") as (port, processes):
            messages = LargeMessages(port, megabytes * 1_000_000) if megabytes else None
            sample = drive(
                Load(agents=4, seconds=options.seconds * 3, port=port, processes=processes)
            )
            if messages:
                messages.stop()
        what = f"a message of {megabytes} MB a second" if megabytes else "alone"
        print(
            f"4 agents, {what}: call p50 {sample.p50_ms:.1f} ms, p99 {sample.p99_ms:.1f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
