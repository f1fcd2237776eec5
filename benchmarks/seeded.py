"""A million episodes with ten million steps, as on a large server, written directly into the
tables.

They belong to six environments with twenty splits and 5,000 tasks, some runs and eight models, and
have every ending, with lengths and returns distributed as on a real server. Episodes are drawn in
Python from a seed, and the database generates their steps; the counts, returns and times of an
episode agree with its steps. Indexes are dropped during the insertion. The search index is generated
by the database too, as the follower would take an hour for it. Used by `dashboard.py`.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from random import Random
from typing import Any

ENVIRONMENTS, TASKS, MODELS = 6, 5000, 8
STEPS = 4000
"""Training steps of all runs together."""
SPLITS = [4, 4, 3, 3, 3, 3]
"""Number of splits of each environment."""
DAYS = 60
DAY_SECONDS = 86_400.0
MEAN_STEPS = 10
MAX_STEPS = 60
_BATCH = 20_000
_COLUMNS = (
    "id, environment_id, split_id, task_index, task_id, session_id, user_agent, key_label, player, "
    "run_id, run_step, model, labels, status, cause, detail, is_probe, steps_count, failed_count, "
    "refused_count, return_sum, return_last, return_max, return_mean, created, ready, first_acted, "
    "last_acted, ended, duration_seconds, end_number"
)
_CAUSES = (
    ["finished"] * 88
    + ["abandoned"] * 5
    + ["expired"] * 3
    + ["env_error"] * 2
    + ["setup_failed", "interrupted"]
)
_WORDS = (
    "amber basin cable delta ember fable glade harbor iris jade kestrel larch maple nectar oasis "
    "pebble quartz river saffron thistle umber velvet willow yarrow zephyr copper granite lantern "
    "meadow orchid"
)

_STEPS = """
    INSERT INTO episodes_step (episode_id, "index", tool, input, output, reward, finished, status, error, reason,
        task_id, started, duration_ms, waited_ms)
    SELECT e.id, n.i,
        CASE (e.id + n.i * 7) %% 5 WHEN 0 THEN 'read_file' WHEN 1 THEN 'search' WHEN 2 THEN 'submit' ELSE 'bash' END,
        '{{"command": "look at ' || a.word || ' in ' || b.word || '"}}',
        CASE WHEN n.i < e.refused_count OR n.i >= e.refused_count + e.steps_count - e.failed_count THEN '' ELSE
        '{{"blocks": [{{"text": "Step ' || n.i || ': there is ' || a.word || ' beside the ' || b.word || ' and ' ||
        c.word || '.", "detail": null, "type": "text"}}], "metadata": null, "reward": null, "finished": false}}' END,
        CASE WHEN n.i < e.refused_count OR e.return_last IS NULL THEN NULL ELSE e.return_sum / e.steps_count END,
        e.cause = 'finished' AND n.i = e.refused_count + e.steps_count - 1,
        CASE WHEN n.i < e.refused_count THEN 'refused'
             WHEN n.i >= e.refused_count + e.steps_count - e.failed_count THEN 'failed' ELSE 'ok' END,
        CASE WHEN n.i < e.refused_count THEN 'path is missing'
             WHEN n.i >= e.refused_count + e.steps_count - e.failed_count THEN 'KeyError: ' || a.word ELSE '' END,
        CASE WHEN n.i < e.refused_count THEN 'input_validation'
             WHEN n.i >= e.refused_count + e.steps_count - e.failed_count THEN 'KeyError' ELSE '' END,
        e.id || '-' || n.i, e.first_acted, 5 + (e.id * 31 + n.i * 17) %% 400, 0.0
    FROM episodes_episode e
    JOIN bench_number n ON n.i < e.steps_count + e.refused_count
    JOIN bench_word a ON a.i = (e.id * 7 + n.i) %% {words}
    JOIN bench_word b ON b.i = (e.id / 3 + n.i * 5) %% {words}
    JOIN bench_word c ON c.i = (e.id / 11 + n.i * 3) %% {words}
    WHERE e.id > %s AND e.id <= %s
    ORDER BY e.id, n.i
"""


@dataclass(frozen=True, slots=True)
class World:
    """The ids of the rows that episodes refer to."""

    tasks: list[list[list[int]]]
    """Ids of tasks by environment and split."""
    splits: list[list[int]]
    environments: list[int]
    runs: list[int]


def seed(episodes: int, runs: int) -> int:
    """Fill an empty, migrated database; return the number of steps."""
    from django.db import connection

    from episodes.models import Episode, Step

    world = _world(runs)
    indexes = list(Episode._meta.indexes)
    with connection.schema_editor() as editor:
        for index in indexes:
            editor.remove_index(Episode, index)
    rows = _episodes(world, episodes)
    while batch := list(islice(rows, _BATCH)):
        _write_episodes(batch)
    _write_steps(episodes)
    for index in indexes:
        with connection.schema_editor() as editor:
            editor.add_index(Episode, index)
    _tidy()
    return Step.objects.count()


def _world(runs_count: int) -> World:
    from environments.models import Environment
    from episodes.models import Run

    environments = [
        Environment.objects.create(
            name=f"bench{n}",
            class_path="benchmarks:None",
            description="Seeded for measuring pages.",
            reward_low=-1.0 if n % 2 else 0.0,
            position=n,
            is_hosted=False,
        )
        for n in range(ENVIRONMENTS)
    ]
    tasks, splits = [], []
    for environment, count in zip(environments, SPLITS, strict=True):
        of_splits = [_split(environment, n, TASKS // sum(SPLITS)) for n in range(count)]
        splits.append([split for split, _ in of_splits])
        tasks.append([task_ids for _, task_ids in of_splits])
    moment = datetime.now(UTC)
    runs = Run.objects.bulk_create(
        Run(name=f"grpo-{n}", model=f"model-{n % MODELS}", created=moment)
        for n in range(runs_count)
    )
    return World(
        tasks, splits, [environment.pk for environment in environments], [run.pk for run in runs]
    )


def _split(environment: Any, number: int, count: int) -> tuple[int, list[int]]:
    """Create a split with `count` tasks; return the ids of both."""
    from environments.models import Split, Task
    from environments.tasks.split_change import SplitChange, commit

    name = ["train", "validation", "test", "hard"][number]
    question = f"{environment.name}, {name}: what is "
    texts = [
        json.dumps({"question": f"{question}{n} times {n % 97}?", "answer": n * (n % 97)})
        for n in range(count)
    ]
    rows = [
        Task(
            environment=environment,
            spec=text,
            source="code",
            content_hash=hashlib.sha256(text.encode()).hexdigest(),
        )
        for text in texts
    ]
    Task.objects.bulk_create(rows, batch_size=1000)
    split = Split.objects.create(
        environment=environment,
        name=name,
        type=name if name != "hard" else "train",
        position=number,
    )
    with SplitChange(split) as change:
        change.add(task.pk for task in rows)
        commit(change)
    return split.pk, [task.pk for task in rows]


def _episodes(world: World, count: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of episodes in the order of their ends; the last one ends now."""
    random = Random("dashboard")
    now = time.time()
    for number in range(1, count + 1):
        share = number / count
        ended = now - DAYS * DAY_SECONDS * (1 - share)
        yield _episode(world, random, number, share, ended)


def _episode(
    world: World, random: Random, number: int, share: float, ended: float
) -> tuple[Any, ...]:
    environment = min(int(random.random() ** 2 * ENVIRONMENTS), ENVIRONMENTS - 1)
    splits = world.splits[environment]
    split = min(int(random.random() ** 2 * len(splits)), len(splits) - 1)
    tasks = world.tasks[environment][split]
    index = random.randrange(len(tasks))
    cause = random.choice(_CAUSES)
    runs = len(world.runs)
    run = (
        max(0, min(int(share * runs) + random.randrange(-2, 3), runs - 1))
        if random.random() < 0.9
        else -1
    )
    is_probe = cause in ("abandoned", "expired") and random.random() < 0.4
    is_empty = is_probe or cause == "setup_failed"
    steps = 0 if is_empty else 1 + min(int(random.expovariate(1 / (MEAN_STEPS - 1))), MAX_STEPS - 6)
    failed = int(cause == "env_error") if steps else 0
    refused = random.randrange(1, 4) if steps and random.random() < 0.05 else 0
    total = _return(random, environment, share) if steps else 0.0
    each = total / steps if steps and steps > failed else None
    duration = steps * random.uniform(0.3, 3.0) if steps else None
    started = ended - (duration or 0.0)
    return (
        number, world.environments[environment], splits[split], index, tasks[index], f"s{number}", "bench", "",
        "human" if random.random() < 0.002 else "agent", world.runs[run] if run >= 0 else None,
        int(share * STEPS) % (STEPS // runs) if run >= 0 else None,
        f"model-{run % MODELS}" if run >= 0 else "", "",
        "ended", cause, "", is_probe, steps, failed, refused, total, each, each, each,
        started - 1, None if cause == "setup_failed" else started, started if steps else None, ended if steps else None,
        ended, duration, number,
    )  # fmt: skip


def _return(random: Random, environment: int, share: float) -> float:
    """Return an attempt's return, which rises with time: 0 or 1 in half of the environments, any
    value in others."""
    skill = 0.25 + 0.5 * share
    if environment % 2 == 0:
        return float(random.random() < skill)
    return round(max(-1.0, min(1.0, random.gauss(2 * skill - 1, 0.4))), 3)


def _write_episodes(rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows of episodes. Times are UTC text without a zone, which both databases read."""
    from django.db import connection, transaction

    columns = _COLUMNS.split(", ")
    times = {"created", "ready", "first_acted", "last_acted", "ended"}
    rows = [
        [
            _moment(value) if name in times else value
            for name, value in zip(columns, row, strict=True)
        ]
        for row in rows
    ]
    target = f"episodes_episode ({_COLUMNS})"
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {target} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        else:
            marks = ", ".join("?" * len(columns))
            connection.connection.executemany(f"INSERT INTO {target} VALUES ({marks})", rows)


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else str(datetime.fromtimestamp(seconds, UTC))[:-6]


def _write_steps(episodes: int) -> None:
    """Generate the steps of all episodes, from two small tables: indexes of steps, and words."""
    from django.db import connection

    words = _WORDS.split()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bench_number (i integer PRIMARY KEY)")
        cursor.execute("CREATE TABLE bench_word (i integer PRIMARY KEY, word text)")
        cursor.executemany("INSERT INTO bench_number VALUES (%s)", [(n,) for n in range(MAX_STEPS)])
        cursor.executemany("INSERT INTO bench_word VALUES (%s, %s)", list(enumerate(words)))
    for first in range(0, episodes, _BATCH):
        with connection.cursor() as cursor:
            cursor.execute(_STEPS.format(words=len(words)), [first, min(episodes, first + _BATCH)])
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE bench_number")
        cursor.execute("DROP TABLE bench_word")


def _tidy() -> None:
    """Do what PostgreSQL needs after rows were inserted: set the next ids, and update the planner's
    statistics."""
    from django.db import connection

    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for table in ("episodes_episode", "episodes_step"):
                cursor.execute(
                    f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}"
                )
            cursor.execute("VACUUM ANALYZE")


_DOCUMENT = """
    s.tool || ' ' || replace(replace(s.input, '"command"', ''), '"', ' ') || ' ' ||
    replace(replace(replace(substr(s.output, 22), '"detail": null, "type": "text"', ''),
        '"metadata": null, "reward": null, "finished": false', ''), '"', ' ') || ' ' || s.error
"""
"""The tool, input, output and error of a step, as the follower indexes them. The texts are ASCII,
which both databases split into words as `episodes/search/words.py` does."""
_WORDS_SQLITE = f"""
    INSERT INTO episodes_transcriptwords (rowid, words)
    SELECT t.id, group_concat({_DOCUMENT}, ' ')
    FROM episodes_transcripttext AS t JOIN episodes_step AS s USING (episode_id)
    WHERE t.episode_id > %s AND t.episode_id <= %s GROUP BY t.id
"""
_WORDS_POSTGRESQL = f"""
    INSERT INTO episodes_transcripttext (episode_id, words)
    SELECT s.episode_id, (''''B' || s.episode_id / {{block}} || ''''')::tsvector ||
        to_tsvector('simple', regexp_replace(
            lower(string_agg({_DOCUMENT}, ' ' ORDER BY s.index)), '[^a-z0-9]+', ' ', 'g'))
    FROM episodes_step AS s WHERE s.episode_id > %s AND s.episode_id <= %s GROUP BY s.episode_id
"""


def index_all() -> None:
    """Index every episode that has steps, in the order of ids, and mark the follower's own part as
    up to date."""
    from django.db import connection

    from episodes.models import Episode, Progress, TranscriptText
    from episodes.rollups.progress import last_end
    from episodes.rollups.text import TextPart
    from episodes.search.index import empty
    from episodes.search.word_table import BLOCK_SUBJECTS

    empty()
    ids = list(Episode.objects.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        span = batch[0] - 1, batch[-1]
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(_WORDS_POSTGRESQL.format(block=BLOCK_SUBJECTS), span)
                continue
            texts = (TranscriptText(episode_id=pk) for pk in batch)
            TranscriptText.objects.bulk_create(texts, batch_size=2000)
            cursor.execute(_WORDS_SQLITE, span)
    Progress.objects.update_or_create(name=TextPart.name, defaults={"end_number": last_end()})
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT gin_clean_pending_list('transcripttext_words')")
            cursor.execute("ANALYZE episodes_transcripttext")


def seed_scalars(points: int) -> None:
    """Report as many values of the scalar `loss`, the same number for each run."""
    from django.db import transaction

    from episodes.models import Run
    from episodes.runs.scalars import store_scalars

    runs, random = list(Run.objects.order_by("pk")), Random(1)
    for run in runs:
        steps = points // len(runs)
        for first in range(0, steps, _BATCH):
            rows = range(first, min(first + _BATCH, steps))
            with transaction.atomic():
                store_scalars(run, [(step, {"loss": random.random()}) for step in rows])
