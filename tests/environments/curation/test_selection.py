"""Selection: what each filter means, in batches and as a whole."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.utils import timezone

from environments.curation import index_walk, selection
from environments.curation.selection import Selection
from environments.filtering.parameters import BadFilter
from environments.models import UNRESTRICTED, Split, SplitEntry, Task, TaskStatistics, TaskTag
from environments.tasks.flags import flag, settle
from tests.environments.curation.tasks import make_tasks
from tests.filters import select
from tests.rows import each
from tests.stored import make_environment, make_split, make_statistics, make_task

pytestmark = pytest.mark.django_db


def chosen(wanted: Selection, seconds: float | None = None) -> list[int]:
    """Return the ids in all batches of the selection, which have to be those of its condition and
    of `all_ids`."""
    found, batch = list[int](), wanted.batch(limit=3, seconds=seconds)
    found += batch.ids
    while not batch.is_last:
        batch = wanted.batch(batch.last, limit=3, seconds=seconds)
        found += batch.ids
    assert sorted(set(found)) == sorted(
        Task.objects.filter(wanted.condition()).values_list("pk", flat=True)
    )
    assert sorted(set(found)) == sorted(wanted.all_ids())
    return found


def attempted(task: int, attempts: int, rate: float) -> None:
    make_statistics(Task.objects.get(pk=task), attempts, round(attempts * rate))


def tag(tasks: list[int], name: str = "hard") -> None:
    TaskTag.objects.bulk_create(TaskTag(task_id=task, name=name) for task in tasks)


def test_it_chooses_everything_newest_first() -> None:
    tasks = make_tasks(8)
    assert chosen(select()) == tasks[::-1]


def test_it_keeps_to_an_environment() -> None:
    make_tasks(2, environment=make_environment("guess"))
    tasks = make_tasks(4)
    assert chosen(select(environment=make_environment().pk)) == tasks[::-1]


def test_it_chooses_tasks_that_a_person_flagged_once_each_until_they_are_settled() -> None:
    tasks = [Task.objects.get(pk=pk) for pk in make_tasks(6)]
    elsewhere = Task.objects.get(pk=make_tasks(1, environment=make_environment("guess"))[0])
    for author, task in (
        ("ada", tasks[1]),
        ("bob", tasks[1]),
        ("ada", tasks[4]),
        ("ada", tasks[5]),
        ("a", elsewhere),
    ):
        flag(task, author, "Wrong.")
    settle(tasks[5], "eve")
    assert chosen(select(flags="open", environment=make_environment().pk)) == [
        tasks[4].pk,
        tasks[1].pk,
    ]
    assert chosen(select(flags="open", split=make_split(*tasks[:3]).pk)) == [tasks[1].pk]


def test_it_goes_along_a_split_in_its_order() -> None:
    tasks = [Task.objects.get(pk=pk) for pk in make_tasks(7)]
    split = make_split(*tasks[2:][::-1], tasks[3])
    wanted = select(environment=split.environment_id, split=split.pk)
    assert chosen(wanted) == [task.pk for task in [*tasks[2:][::-1], tasks[3]]]
    assert wanted.batch(limit=2).positions == (0, 1)
    assert list(wanted.all_ids()) == [task.pk for task in tasks[2:][::-1]]


def test_tasks_by_their_ids_keep_the_order_of_the_split_and_others_come_after() -> None:
    tasks = [Task.objects.get(pk=pk) for pk in make_tasks(6)]
    split = make_split(tasks[4], tasks[1], tasks[3], tasks[1], tasks[0])
    wanted = select(split=split.pk, ids=tuple(tasks[n].pk for n in (5, 1, 2, 3, 4)))
    assert list(wanted.all_ids()) == [tasks[n].pk for n in (4, 1, 3, 2, 5)]


def test_it_sees_a_split_at_its_present_version() -> None:
    split = make_split(*(make_task() for _ in range(4)))
    Split.objects.update(version=5)
    first, second, third, hidden = split.entries.all()
    SplitEntry.objects.filter(pk=first.pk).update(until=5)
    SplitEntry.objects.filter(pk=second.pk).update(until=6)
    SplitEntry.objects.filter(pk=third.pk).update(since=6)
    SplitEntry.objects.filter(pk=hidden.pk).update(is_hidden=True)
    assert chosen(select(split=split.pk)) == [second.task_id, hidden.task_id]


def test_it_finds_nothing_in_a_split_of_another_environment() -> None:
    split = make_split(make_task())
    assert chosen(select(environment=make_environment("guess").pk, split=split.pk)) == []


def test_it_chooses_by_tag() -> None:
    tasks = make_tasks(6)
    TaskTag.objects.bulk_create(TaskTag(task_id=task, name="hard") for task in tasks[1:5])
    TaskTag.objects.create(task_id=tasks[0], name="harder")
    assert chosen(select(tag="hard")) == tasks[1:5][::-1]
    assert chosen(select(tag="ha\0rd")) == []


@pytest.mark.parametrize("environment", [True, False])
def test_it_chooses_by_state(environment: bool) -> None:
    tasks = make_tasks(5)
    Task.objects.filter(pk__in=tasks[:2]).update(state="quarantined")
    within = make_environment().pk if environment else None
    assert chosen(select(environment=within, state="quarantined")) == tasks[:2][::-1]
    assert chosen(select(environment=within, state="active")) == tasks[2:][::-1]


@pytest.mark.parametrize("source", ["code", "import", "edit", "played"])
def test_it_chooses_by_source(source: str) -> None:
    by_source = {
        name: make_tasks(4, 10 * n, source=name) for n, (name, _) in enumerate(Task.SOURCES)
    }
    assert chosen(select(source=source)) == by_source[source][::-1]


@pytest.mark.parametrize("environment", [True, False])
def test_it_chooses_what_the_code_dropped(environment: bool) -> None:
    tasks = make_tasks(5, source="code")
    Task.objects.filter(pk__in=tasks[3:]).update(dropped=timezone.now())
    assert (
        chosen(select(make_environment().pk if environment else None, source="dropped"))
        == tasks[3:][::-1]
    )


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize(
    ("bucket", "expected"),
    [
        ("failing", [7, 6]),
        ("unseen", [0]),
        ("hopeless", [1]),
        ("learnable", [5, 3, 2]),
        ("saturated", [4]),
    ],
)
def test_it_chooses_by_bucket(bucket: str, expected: list[int], within: bool) -> None:
    tasks = make_tasks(8)
    for task, (attempts, rate) in zip(
        tasks[1:6], [(4, 0.0), (3, 0.0), (8, 0.5), (9, 1.0), (8, 0.25)], strict=True
    ):
        attempted(task, attempts, rate)
    make_statistics(Task.objects.get(pk=tasks[6]), 0, 0, failures=1)
    make_statistics(Task.objects.get(pk=tasks[7]), 5, 5, failures=5)
    found = chosen(select(make_environment().pk if within else None, bucket=bucket))
    assert found == [tasks[n] for n in expected]


def test_it_lists_a_bucket_newest_first_whatever_the_environment() -> None:
    tasks = [
        *make_tasks(2),
        *make_tasks(1, environment=make_environment("guess")),
        *make_tasks(2, 2),
    ]
    for task, successes in zip(tasks, [2, 4, 3, 1, 5], strict=True):
        attempted(task, 8, successes / 8)
    assert chosen(select(bucket="learnable")) == tasks[::-1]


def test_a_bucket_holds_what_is_true_even_before_a_recount() -> None:
    hopeless, learnable, failing = make_tasks(3)
    attempted(hopeless, 4, 0.0)
    attempted(learnable, 8, 0.5)
    TaskStatistics.objects.update(bucket="hopeless")
    make_statistics(Task.objects.get(pk=failing), 0, 0, failures=1)
    Task.objects.update(is_unseen=True)
    assert chosen(select(bucket="hopeless")) == [hopeless]
    assert not {learnable, failing} & {*chosen(select(bucket="unseen"))}


def test_it_steps_over_a_long_stretch_without_a_match(
    monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    monkeypatch.setattr(index_walk, "SPANS", (10,))
    tasks = make_tasks(600)
    tag(tasks[:20] + tasks[320:])
    Task.objects.filter(pk__in=tasks[:300]).update(state="quarantined")
    wanted = select(tag="hard", state="quarantined")
    with django_assert_max_num_queries(10):
        assert wanted.batch(limit=50).ids == tuple(tasks[19::-1])
    with django_assert_max_num_queries(10):
        assert wanted.batch(limit=50, backward=True).ids == tuple(tasks[19::-1])


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_what_is_far_down_a_split_is_found_by_the_tasks_ids(
    monkeypatch: pytest.MonkeyPatch, seconds: float | None
) -> None:
    monkeypatch.setattr(index_walk, "SPANS", (2,))
    monkeypatch.setattr(selection, "MAX_FEW", 2)
    monkeypatch.setattr(selection, "MAX_WALKED_PLACES", 6)
    tasks = make_tasks(30)
    split = make_split(*(Task.objects.get(pk=task) for task in tasks))
    tag(tasks[20:])
    wanted = select(split=split.pk, tag="hard")
    assert chosen(wanted, seconds) == (tasks[20:] if seconds is None else tasks[:19:-1])
    assert wanted.batch(seconds=seconds).order == ("split" if seconds is None else "newest")


def test_a_task_with_two_places_in_a_split_is_found_once_by_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_walk, "SPANS", (2,))
    monkeypatch.setattr(selection, "MAX_WALKED_PLACES", 2)
    monkeypatch.setattr(selection, "MAX_FEW", 2)
    tasks = [Task.objects.get(pk=task) for task in make_tasks(8)]
    split = make_split(*tasks, *tasks)
    assert chosen(select(split=split.pk, state="active"), seconds=60.0) == [
        task.pk for task in tasks[::-1]
    ]


@pytest.mark.parametrize(
    "search", ["Größe", "\\u00f6\\u00DF", "A GR", '"name": "A', "100%_\\\\", "\udc00", "\0"]
)
def test_it_searches_the_spec_as_written_and_as_escaped(search: str) -> None:
    escaped = make_task({"name": "A größe \udc00 \0 100%_\\"})
    written = make_task({"name": "b"})
    Task.objects.filter(pk=written.pk).update(spec='{"name": "A Größe", "of": "100%_\\\\"}')
    make_task({"name": "something else, 1000"})
    found = chosen(select(search=search))
    assert found
    assert set(found) <= {escaped.pk, written.pk}


def test_it_combines_all_its_filters() -> None:
    tasks = make_tasks(20)
    split = make_split(*Task.objects.filter(pk__in=tasks[5:]).order_by("-pk"))
    TaskTag.objects.bulk_create(TaskTag(task_id=task, name="hard") for task in tasks[:15])
    Task.objects.filter(pk__in=tasks[10:]).update(state="quarantined")
    wanted = select(
        make_environment().pk, split.pk, tag="hard", state="quarantined", search='"n": 1'
    )
    assert chosen(wanted) == tasks[10:15][::-1]


def test_it_narrows_only_by_filters_that_leave_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MAX_FEW", 2)
    tasks = make_tasks(9)
    split = make_split(*Task.objects.filter(pk__in=tasks).order_by("pk"))
    TaskTag.objects.bulk_create(TaskTag(task_id=task, name="hard") for task in tasks[2:])
    assert chosen(select(split=split.pk, tag="hard")) == tasks[2:]


def test_it_goes_back_to_the_batch_before() -> None:
    tasks = make_tasks(10)[::-1]
    second = select().batch(select().batch(limit=3).last, limit=3)
    assert second.ids == tuple(tasks[3:6])
    first = select().batch(second.first, limit=3, backward=True)
    assert (first.ids, first.is_last) == (tuple(tasks[:3]), True)


def test_it_starts_at_the_beginning_with_an_unreadable_cursor() -> None:
    tasks = make_tasks(2)[::-1]
    for cursor in ("x", "1,2", "n", "n-", "true", "1e999", "9" * 30, ""):
        assert list(select().batch(cursor).ids) == tasks


def test_it_stops_when_its_time_is_over_and_continues_from_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_walk, "SPANS", (4,))
    tasks = make_tasks(10)
    wanted = select(search='"n": 3')
    first = wanted.batch(seconds=0)
    assert (first.ids, first.seen, first.is_last) == ((), 4, False)
    second = wanted.batch(first.last, seconds=0)
    assert second.ids == (tasks[3],)


def test_it_counts_up_to_a_limit() -> None:
    make_tasks(5)
    assert select().count(5) == selection.Count(5, True)
    assert select().count(4) == selection.Count(4, False, is_over=True)


@pytest.mark.parametrize("text", ["nothing", '"n": 1'])
def test_it_survives_a_round_trip_through_an_address(text: str) -> None:
    wanted = select(3, 4, "hard", "active", "edit", "unseen", text, "-return", (5, 6))
    assert Selection.parse(wanted.values(), UNRESTRICTED) == wanted
    assert Selection.parse(select().values(), UNRESTRICTED) == select()
    assert Selection.parse({}, UNRESTRICTED) == select(state="served")


@each(
    ("name", "value", "allowed"),
    [
        ("environment", "math", "it has to be the number of an environment"),
        ("environment", "9" * 5000, "it has to be the number of an environment"),
        ("split", "-1", "it has to be the number of a split"),
        (
            "sort",
            "name",
            "allowed are attempts, return, success, bucket, with",
        ),
        ("search", "answer>many", "after > comes a number"),
        ("ids", "1,b", "they have to be numbers of tasks"),
        (
            "state",
            "lost",
            "allowed are served, quarantined, superseded, removed, pasted, active, any",
        ),
        ("source", "?", "allowed are code, import, edit, played, dropped"),
        ("bucket", "full", "allowed are failing, unseen, hopeless, learnable, saturated"),
        ("flags", "closed", "allowed are open"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_with_what_is_allowed(
    name: str, value: str, allowed: str
) -> None:
    with pytest.raises(BadFilter, match=f"{name}='.*' cannot be used: {re.escape(allowed)}"):
        Selection.parse({name: value}, UNRESTRICTED)


@pytest.mark.parametrize("count", [10, 2500])
def test_it_runs_as_few_queries_for_many_tasks_as_for_few(
    count: int, django_assert_max_num_queries: Any
) -> None:
    make_tasks(count)
    environment = make_environment().pk
    with django_assert_max_num_queries(2):
        assert len(select(environment=environment).batch(limit=10).ids) == 10


def test_a_search_finds_words_in_any_order_phrases_and_hashes() -> None:
    tasks = [make_task({"q": text}) for text in ("the red apple", "an apple is red", "a pear")]
    texts = [task.spec for task in tasks]

    def found(text: str) -> list[str]:
        rows = Task.objects.filter(select(search=text).condition()).order_by("pk")
        return list(rows.values_list("spec", flat=True))

    assert found("red APPLE") == texts[:2]
    assert found('"red apple"') == texts[:1]
    assert found(tasks[2].content_hash[:8]) == found(tasks[2].content_hash) == texts[2:]
    assert found("a " * 5000) == []
