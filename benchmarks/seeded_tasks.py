"""A million tasks as they are after a year of use, written directly into the tables. Used by
`task_list.py`.

Agents and people use tasks in order (a run stops half way, a file is imported, a class drops a
chapter), so tasks that match a filter are close together. Walking along an index, a filter
therefore meets long ranges without any match.

    share of the tasks, oldest first
    0.00 - 0.30   attempted four times and more: hopeless, saturated and learnable mixed
    0.30 - 0.40   attempted once, every other time with success
    0.45 - 0.47   quarantined
    0.50 - 0.70   tagged `block`
    0.60 - 0.65   imported; 0.66 - 0.70 dropped from the code
    0.80 - 1.00   attempted once, never with success
    everywhere    a few edited, played, quarantined; tags `rare` (30), `some` (2,000) and `scattered` (every tenth);
                  tag `chapter`: the tasks from 0.50 to 0.70 of the order of split `mixed`

Split `train` has all tasks in order, `tail` the last fifth of them. `mixed` has all tasks in random
order, with 5 % of the positions empty and quarantined tasks hidden; `mended` differs from it only
by being in order. `held out` has 10,000 tasks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

from benchmarks.bulk import analyze, set_sequences, write_rows

RARE, SOME, HELD_OUT = 30, 2000, 10_000
_CREATED = "2026-01-01 00:00:00"
_STATISTICS = [
    "task_id",
    "environment_id",
    "by",
    "key",
    "attempts",
    "scored",
    "successes",
    "return_total",
    "rate",
    "bucket",
]


def seed(count: int) -> None:
    """Fill an empty, migrated database with `count` tasks."""
    from environments.models import Environment

    big, small = (
        Environment.objects.create(
            name=name, class_path="benchmarks:None", position=position, is_hosted=False
        )
        for position, name in enumerate(("big", "small"))
    )
    write_rows("environments_task", _TASK, _tasks(count, big.pk, small.pk))
    set_sequences("environments_task")
    write_rows("environments_tasktag", ["task_id", "name"], _tags(count))
    write_rows("environments_taskstatistics", _STATISTICS, _statistics(count, big.pk))
    order, random = list(range(count)), Random(3)
    _split(big.pk, "train", enumerate(order), count)
    _split(big.pk, "tail", enumerate(order[count * 4 // 5 :]), count)
    _split(big.pk, "mended", ((n, n) for n in order if n % 20), count)
    _split(big.pk, "held out", enumerate(random.sample(order, min(HELD_OUT, count))), count)
    random.shuffle(order)
    chapter = sorted(order[count // 2 : count * 7 // 10])
    write_rows("environments_tasktag", ["task_id", "name"], ((n + 1, "chapter") for n in chapter))
    _split(
        big.pk, "mixed", ((position, n) for position, n in enumerate(order) if position % 20), count
    )
    analyze()


_TASK = [
    "id",
    "environment_id",
    "content_hash",
    "spec",
    "state",
    "reason",
    "source",
    "dropped",
    "is_unseen",
    "created",
]


def _tasks(count: int, big: int, small: int) -> Iterator[Sequence[Any]]:
    for n in range(count + count // 1000):
        spec = json.dumps({"question": f"How much is {n} times {n % 97}?", "answer": n * (n % 97)})
        digest = hashlib.sha256(spec.encode()).hexdigest()
        state = "quarantined" if is_quarantined(n, count) else "active"
        dropped = _CREATED if 0.66 <= n / count < 0.7 else None
        reason = "The answer is wrong." if state == "quarantined" else ""
        environment, is_unseen = (big if n < count else small), not _attempts(n, count)[0]
        yield (
            n + 1,
            environment,
            digest,
            spec,
            state,
            reason,
            _source(n, count),
            dropped,
            is_unseen,
            _CREATED,
        )


def is_quarantined(n: int, count: int) -> bool:
    return 0.45 <= n / count < 0.47 or _dice("state", n, 100) == 0


def _dice(kind: str, n: int, sides: int) -> int:
    """Return a number from 0 to `sides` - 1 that is constant for a task and `kind`, and independent
    between kinds."""
    digest = hashlib.blake2b(f"{kind} {n}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % sides


def _source(n: int, count: int) -> str:
    if 0.6 <= n / count < 0.65:
        return "import"
    dice = _dice("source", n, 2000)
    return "edit" if dice == 0 else "played" if dice < 7 else "code"


def _tags(count: int) -> Iterator[tuple[int, str]]:
    for n in range(count):
        if n % max(1, count // RARE) == 5:
            yield n + 1, "rare"
        if _dice("some", n, max(1, count // SOME)) == 0:
            yield n + 1, "some"
        if 0.5 <= n / count < 0.7:
            yield n + 1, "block"
        if _dice("scattered", n, 10) == 0:
            yield n + 1, "scattered"


def _statistics(count: int, environment: int) -> Iterator[tuple[Any, ...]]:
    from environments.scoring.task_buckets import Thresholds, bucket_of

    for n in range(count):
        attempts, successes = _attempts(n, count)
        if attempts:
            rate = successes / attempts
            bucket = bucket_of(attempts, rate, Thresholds())
            for by, key in (("all", ""), ("model", "model-1")):
                yield (
                    n + 1,
                    environment,
                    by,
                    key,
                    attempts,
                    attempts,
                    successes,
                    float(successes),
                    rate,
                    bucket,
                )


def _attempts(n: int, count: int) -> tuple[int, int]:
    """Return the numbers of attempts and of successes of task `n`."""
    share, dice = n / count, _dice("successes", n, 10)
    if share < 0.3:
        attempts = 4 + n % 13
        return attempts, 0 if dice < 2 else attempts if dice < 5 else 1 + n % (attempts - 1)
    if share < 0.4:
        return 1, dice % 2
    return (1, 0) if share >= 0.8 else (0, 0)


def _split(environment: int, name: str, places: Iterable[tuple[int, int]], count: int) -> None:
    """Create a split; `places` are pairs of a position and the number of a task."""
    from environments.models import Split, SplitEntry
    from environments.tasks.split_indexes import renew

    split = Split.objects.create(
        environment_id=environment, name=name, type="train", version=1, is_curated=True
    )
    hides = name not in ("train", "tail")
    columns = ["split_id", "position", "task_id", "source_hash", "is_hidden", "since"]
    rows = ((split.pk, at, n + 1, "", hides and is_quarantined(n, count), 1) for at, n in places)
    write_rows("environments_splitentry", columns, rows)
    split.size = SplitEntry.objects.filter(split=split, is_hidden=False).count()
    split.save()
    renew(split.pk, split.version)
