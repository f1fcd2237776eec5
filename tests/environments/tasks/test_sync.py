"""Sync: what becomes of hosted classes and their tasks in the database."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings
from structlog.testing import capture_logs

from environments.authoring.hosted_class import HostedClass
from environments.authoring.hosted_environment import ClassRevision
from environments.errors import Unhostable
from environments.models import Environment, SecurityEvent, Split, SplitEntry, Task
from environments.models.task_hash import content_hash
from environments.tasks.sync import BATCH_TASKS
from environments.tasks.sync_report import SplitSync, SyncReport
from tests.environments.listings import listing, numbered, procedural, synced, synced_beside
from tests.envs_unavailable import REASON
from tests.filters import select
from tests.rows import each

pytestmark = pytest.mark.django_db(transaction=True)


def sync_now(*hosted: HostedClass) -> SyncReport:
    return asyncio.run(synced(*hosted))


def specs(split: str = "train") -> list[str]:
    return list(
        SplitEntry.objects.filter(split__name=split)
        .order_by("position")
        .values_list("task__spec", flat=True)
    )


def test_rows_of_tasks_are_in_the_order_of_the_class() -> None:
    tasks = [{"id": number * 7 % 100} for number in range(100)]
    sync_now(listing({"train": tasks}))
    rows = Task.objects.order_by("pk").values_list("spec", flat=True)
    assert [json.loads(spec) for spec in rows] == tasks


def test_it_writes_what_a_class_says_of_itself() -> None:
    said: dict[str, Any] = {
        "default_return": "max",
        "reward_range": (-1, 2.5),
        "success_threshold": 0,
    }
    said["convention"] = {"no_call": "out", "expired": "zero"}
    sync_now(
        listing({"train": []}, "first"),
        listing({"train": []}, __doc__="A shop.\n\n    Sells.\n", **said),
    )
    row = Environment.objects.get(name="shop")
    assert (row.description, row.position, row.class_path) == (
        "A shop.\n\nSells.",
        1,
        "tests.environments.listings:Shop",
    )
    assert (row.default_return, row.reward_low, row.reward_high, row.success_threshold) == (
        "max",
        -1.0,
        2.5,
        0.0,
    )
    assert (row.convention, row.definition) == ("ozoo", "max > 0.0 ozoo")


def test_what_is_hosted_for_the_first_time_starts_private_if_the_operator_wants_that(
    settings: Settings,
) -> None:
    sync_now(listing({"train": []}, "old"))
    Environment.objects.create(name="uploaded", is_hosted=False)
    settings.ORSWEB_NEW_ENVIRONMENTS_PRIVATE = True
    hosted = [listing({"train": []}, name) for name in ("old", "uploaded", "new")]
    sync_now(*hosted)
    assert dict(Environment.objects.values_list("name", "is_private")) == {
        "old": False,
        "uploaded": True,
        "new": True,
    }
    assert SecurityEvent.objects.get(kind="environment_changed").what == "environment uploaded"
    Environment.objects.update(is_private=False)
    sync_now(*hosted)
    assert not Environment.objects.filter(is_private=True).exists()


def test_it_keeps_what_people_chose_and_follows_the_class_elsewhere() -> None:
    sync_now(listing({"train": []}, reward_range=(0, 1), success_threshold=0.5))
    Environment.objects.update(reward_low=-1.0)
    sync_now(listing({"train": []}, reward_range=(0, 3), success_threshold=0.7))
    row = Environment.objects.get()
    assert (row.reward_low, row.reward_high, row.declared_low, row.declared_high) == (
        -1.0,
        1.0,
        0.0,
        3.0,
    )
    assert (row.success_threshold, row.declared_threshold) == (0.7, 0.7)


def test_it_stores_the_task_schema_that_a_class_declares() -> None:
    sync_now(listing({"train": []}, task_schema={"required": ["question"]}))
    assert Environment.objects.get().task_schema == '{"required": ["question"]}'


def test_tasks_in_any_script_are_found() -> None:
    sync_now(listing({"train": [{"q": "\u00c4pfel"}, {"q": "Birnen"}]}))
    found = Task.objects.get(select(search="\u00e4PFEL").condition())
    assert json.loads(found.spec) == {"q": "\u00c4pfel"}


def test_it_refuses_a_task_schema_that_is_none() -> None:
    with pytest.raises(Unhostable, match="shop: task_schema is not a JSON Schema"):
        sync_now(listing({"train": []}, task_schema={"type": 7}))


def test_it_writes_every_split_in_order() -> None:
    sync_now(listing({"test": numbered(1), "extra": numbered(1)}))
    rows = Split.objects.values_list("name", "type", "position", "is_served", "version")
    assert list(rows) == [("test", "test", 0, True, 1), ("extra", "validation", 1, True, 1)]


def test_it_keeps_the_order_of_tasks_over_several_batches() -> None:
    sync_now(listing({"train": numbered(2 * BATCH_TASKS + 1)}))
    assert specs() == [f'{{"n":{n}}}' for n in range(2 * BATCH_TASKS + 1)]


@pytest.mark.parametrize(("is_alone", "statements"), [(False, 3), (True, 1)])
def test_what_has_the_database_alone_writes_a_long_list_at_once(
    is_alone: bool, statements: int, queries: list[str]
) -> None:
    asyncio.run(synced(listing({"train": numbered(2 * BATCH_TASKS + 1)}), is_alone=is_alone))
    for table in ("environments_task", "environments_splitentry"):
        assert len([sql for sql in queries if f"INSERT INTO {table} " in sql]) == statements
    assert specs() == [f'{{"n":{n}}}' for n in range(2 * BATCH_TASKS + 1)]


def test_it_knows_a_task_by_its_content_whatever_the_order_of_keys() -> None:
    sync_now(listing({"train": [{"a": 1, "b": 2}, {"b": 2, "a": 1}], "test": [{"a": 1, "b": 2}]}))
    [task] = Task.objects.all()
    assert task.entries.count() == 3
    assert task.content_hash == content_hash('{"b":2,"a":1}')


def test_it_awaits_an_async_listing() -> None:
    async def list_tasks(split: str) -> list[dict[str, int]]:
        return numbered(2)

    sync_now(listing({"train": None}, list_tasks=staticmethod(list_tasks)))
    assert specs() == ['{"n":0}', '{"n":1}']


def test_it_reports_what_changed() -> None:
    sync_now(listing({"train": numbered(3)}))
    report = sync_now(listing({"train": [{"n": 2}, {"n": 9}, {"n": 2}]}))
    assert report.splits == (
        SplitSync("shop", "train", added=2, unchanged=1, removed=2, dropped=2),
    )


def test_it_replaces_a_changed_list_and_keeps_its_old_tasks() -> None:
    sync_now(listing({"train": numbered(3)}))
    sync_now(listing({"train": [{"n": 9}, {"n": 1}]}))
    assert specs() == ['{"n":9}', '{"n":1}']
    assert Task.objects.count() == 4
    assert Split.objects.get().version == 2


def test_it_cuts_a_list_that_became_shorter_by_several_batches() -> None:
    sync_now(listing({"train": numbered(3 * BATCH_TASKS)}))
    sync_now(listing({"train": numbered(5)}))
    assert specs() == [f'{{"n":{n}}}' for n in range(5)]


def test_it_leaves_an_unchanged_split_alone() -> None:
    sync_now(listing({"train": numbered(3)}))
    before = list(SplitEntry.objects.values_list("pk", "task_id"))
    report = sync_now(listing({"train": numbered(3)}))
    assert report.splits == (SplitSync("shop", "train", unchanged=3),)
    assert list(SplitEntry.objects.values_list("pk", "task_id")) == before
    assert Split.objects.get().version == 1


@pytest.mark.parametrize("size", [1, 3 * BATCH_TASKS])
def test_it_asks_nothing_of_an_unchanged_splits_tasks(size: int, queries: list[str]) -> None:
    sync_now(listing({"train": numbered(size)}))
    queries.clear()
    sync_now(listing({"train": numbered(size)}))
    assert not [sql for sql in queries if "_task" in sql or "_splitentry" in sql]


def test_it_completes_a_sync_that_was_interrupted() -> None:
    sync_now(listing({"train": numbered(3)}))
    Split.objects.update(source_hash="")  # its state while entries are written
    SplitEntry.objects.filter(position=2).delete()
    sync_now(listing({"train": numbered(3)}))
    assert len(specs()) == 3


def test_it_adds_tasks_again_that_a_concurrent_import_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The import had added the same tasks and failed."""

    def take_away(environment: int, hashes: list[str]) -> None:
        Task.objects.filter(environment=environment, spec='{"n":1}').delete()

    monkeypatch.setattr("environments.tasks.sync.unmark_dropped", take_away)
    sync_now(listing({"train": numbered(3)}))
    assert specs() == ['{"n":0}', '{"n":1}', '{"n":2}']


def test_it_serves_a_split_only_once_its_tasks_are_there() -> None:
    assert sync_now(listing({"train": numbered(1), "test": KeyError("no")})).failures
    assert dict(Split.objects.values_list("name", "is_served")) == {"train": False, "test": False}


def test_it_stops_serving_what_is_no_longer_declared() -> None:
    sync_now(listing({"train": numbered(1), "test": numbered(1)}))
    sync_now(listing({"train": numbered(1)}))
    assert not Split.objects.get(name="test").is_served


def test_it_serves_again_what_is_declared_again() -> None:
    sync_now(listing({"train": numbered(1), "test": numbered(1)}))
    sync_now(listing({"train": numbered(1)}))
    sync_now(listing({"train": numbered(1), "test": numbered(1)}))
    assert Split.objects.get(name="test").is_served


def test_it_marks_environments_that_are_no_longer_hosted() -> None:
    sync_now(listing({"train": []}), listing({"train": []}, "bank"))
    sync_now(listing({"train": []}, "bank"))
    assert dict(Environment.objects.values_list("name", "is_hosted")) == {
        "shop": False,
        "bank": True,
    }


def test_it_marks_a_class_without_list_tasks_as_procedural() -> None:
    report = sync_now(procedural(num_tasks=lambda split: 5))
    assert report.procedural == ("dice",)
    assert Environment.objects.get().is_procedural
    assert Split.objects.get().is_served


def test_it_tells_once_of_a_split_that_a_procedural_class_no_longer_declares() -> None:
    sync_now(procedural(list_splits=lambda: ["train", "test"]))
    assert sync_now(procedural()).splits == (SplitSync("dice", "test", is_undeclared=True),)
    assert sync_now(procedural()).splits == ()
    assert not Split.objects.get(name="test").is_served


def test_it_serves_no_split_that_such_a_class_has_ceased_to_declare() -> None:
    for split in ("train", "test"):
        sync_now(listing({split: NotImplementedError()}, num_tasks=staticmethod(lambda split: 0)))
    assert dict(Split.objects.values_list("name", "is_served")) == {"train": False, "test": True}


def test_it_notices_that_a_class_lists_its_tasks_now() -> None:
    sync_now(procedural("shop"))
    sync_now(listing({"train": numbered(2)}))
    assert not Environment.objects.get().is_procedural
    assert len(specs()) == 2


@each(
    ("task", "problem"),
    [
        ({"n": float("nan")}, "ValueError"),
        ({"n": [float("inf")]}, "ValueError"),
        ({"n": object()}, "object"),
        ([1], "list is not an object"),
        ("text", "str is not an object"),
        (None, "NoneType is not an object"),
    ],
)
def test_it_refuses_a_task_that_is_no_json_object(task: Any, problem: str) -> None:
    [failure] = sync_now(listing({"train": [{}, task]})).failures
    assert re.search(
        rf"^shop: list_tasks\('train'\) .*{problem}.*a task is a JSON object", str(failure)
    )
    assert "task 1: " in str(failure)


@each("tasks", [None, {"n": 1}, "tasks", 7])
def test_it_refuses_what_is_no_list(tasks: Any) -> None:
    [failure] = sync_now(listing({"train": tasks})).failures
    assert re.search(r"shop: list_tasks\('train'\) .*expected a list of tasks", str(failure))


def test_it_tells_what_list_tasks_raised() -> None:
    [failure] = sync_now(listing({"train": OSError("no such file")})).failures
    sentence = (
        r"shop: list_tasks\('train'\) of .*:Shop cannot be served: OSError: no such file \(.*, "
        r"line \d+\)\."
    )
    assert re.fullmatch(sentence, str(failure))


def test_it_says_that_an_environment_has_no_task() -> None:
    with capture_logs() as logged:
        sync_now(listing({"train": []}))
    assert [
        entry["environment"] for entry in logged if entry["event"] == "an environment has no task"
    ] == ["shop"]


def test_it_says_what_a_start_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("environments.tasks.sync.SLOW_SECONDS", 0.0)
    with capture_logs() as logged:
        sync_now(listing({"train": [{"q": 1}]}))
    waits = [
        entry["call"]
        for entry in logged
        if entry["event"] == "waiting for the tasks of an environment"
    ]
    assert waits == ["list_tasks('train')"]


def test_it_warns_of_hidden_fields_that_no_task_has() -> None:
    with capture_logs() as logged:
        sync_now(
            listing(
                {"train": [{"q": 1}], "test": [{"answer": 2}]}, hidden_fields=("answer", "anwser")
            )
        )
    fields = [entry["field"] for entry in logged if entry["event"] == "no task has a hidden field"]
    assert fields == ["anwser"]


def test_a_class_that_lists_no_tasks_keeps_its_own_and_does_not_keep_others_from_listing() -> None:
    sync_now(listing({"train": numbered(2)}), listing({"train": []}, "bank"))
    report = sync_now(
        listing({"train": OSError("no\0disk")}), listing({"train": numbered(1)}, "bank")
    )
    assert [failure.environment for failure in report.failures] == ["shop"]
    reasons = dict(Environment.objects.values_list("name", "unavailable"))
    assert "OSError: no\ufffddisk (" in reasons["shop"] and not reasons["bank"]
    served = (
        Split.objects.filter(is_served=True)
        .order_by("size")
        .values_list("environment__name", "size")
    )
    assert list(served) == [("bank", 1), ("shop", 2)]
    sync_now(listing({"train": numbered(3)}), listing({"train": numbered(1)}, "bank"))
    assert not Environment.objects.exclude(unavailable="").exists()


def test_a_procedural_class_that_does_not_count_its_tasks_is_unavailable() -> None:
    def num_tasks(split: str) -> int:
        raise OSError("no disk")

    report = sync_now(procedural(num_tasks=num_tasks), listing({"train": numbered(1)}, "bank"))
    assert [failure.environment for failure in report.failures] == ["dice"]
    reasons = dict(Environment.objects.values_list("name", "unavailable"))
    assert not reasons["bank"] and reasons["dice"].startswith("num_tasks('train') of ")
    assert "cannot be served: OSError: no disk (" in reasons["dice"]


@each(
    "said",
    [
        {"default_return": "median"},
        {"reward_range": (0,)},
        {"reward_range": "ab"},
        {"reward_range": (1, 0)},
        {"success_threshold": None},
    ],
)
def test_it_refuses_what_no_page_could_show(said: dict[str, Any]) -> None:
    with pytest.raises(Unhostable, match=f"^shop: {next(iter(said))} is "):
        sync_now(listing({"train": []}, **said))


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("zero", "convention is 'zero'; it must be a mapping"),
        (
            {"no_cal": "out"},
            "convention has the part 'no_cal'; there are no_call, expired, interrupted, env_error",
        ),
        ({"no_call": "keep"}, "convention says 'no_call': 'keep'; use 'zero' or 'out'"),
    ],
)
def test_it_refuses_a_convention_that_does_not_exist(said: Any, sentence: str) -> None:
    with pytest.raises(Unhostable, match=f"^shop: {sentence}"):
        sync_now(listing({"train": []}, convention=said))


def test_the_command_prints_what_was_synced(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("sync_environments", "shop=tests.envs:Echo")
    assert "shop/train: 3 added, 0 unchanged, 0 removed" in capsys.readouterr().out


def test_the_command_leaves_environments_alone_that_it_is_not_given() -> None:
    sync_now(listing({"train": []}), listing({"train": []}, "bank"))
    call_command("sync_environments", "tests.envs:Echo")
    assert dict(Environment.objects.values_list("name", "is_hosted")) == {
        "shop": True,
        "bank": True,
        "echo": True,
    }
    assert list(Environment.objects.filter(name="bank").values_list("position", flat=True)) == [1]


def test_the_command_leaves_available_what_a_server_may_play(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orsweb_test_unlisted.py").write_text(
        "from tests.envs import Echo\nclass Unlisted(Echo):\n"
        "    @classmethod\n    def list_tasks(cls, split): 1 / 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    call_command("sync_environments", "shop=tests.envs:Echo")
    goes_on = "A server that plays it goes on with the tasks that it has."
    with pytest.raises(CommandError, match=f"ZeroDivisionError.*{goes_on}"):
        call_command("sync_environments", "shop=orsweb_test_unlisted:Unlisted")
    call_command("sync_environments", "shop=tests.envs_unavailable:Native")
    assert f"shop: {REASON} {goes_on}" in capsys.readouterr().err
    assert Environment.objects.get(name="shop").unavailable == ""


def test_the_command_refuses_in_one_sentence() -> None:
    with pytest.raises(CommandError, match="has no class 'Nothing'"):
        call_command("sync_environments", "tests.envs:Nothing")


class FixedTasks:
    """A class whose tasks depend on its code alone, which counts how often it is asked for them."""

    def __init__(self, tasks: dict[str, Any]) -> None:
        self.tasks, self.asked = tasks, 0

    def sync(self, code: str | None = "a", name: str = "shop", unread: str = "") -> list[SplitSync]:
        """Sync the class with the code `code`; None: it is unknown. `name`: of the class, which is
        served as shop.

        `unread`: part of the code that is unknown.
        """
        return list(sync_now(self.hosted(code, name, unread)).splits)

    def hosted(self, code: str | None = "a", name: str = "shop", unread: str = "") -> HostedClass:
        made = HostedClass(listing(self.tasks, name, fixed_tasks=True).cls, "shop")
        list_tasks = made.cls.list_tasks

        def counted(split: str) -> Any:
            self.asked += 1
            return list_tasks(split)

        made.cls.list_tasks = staticmethod(counted)
        made.revision = (
            ClassRevision("source", "", False, (), code, code, unread) if code is not None else None
        )
        return made


def test_a_class_whose_tasks_depend_on_its_code_alone_is_asked_again_only_for_other_code() -> None:
    fixed = FixedTasks({"train": numbered(3), "test": numbered(2)})
    fixed.sync()
    assert (fixed.sync(), fixed.asked) == (
        [SplitSync("shop", "train", unchanged=3), SplitSync("shop", "test", unchanged=2)],
        2,
    )
    fixed.tasks["train"] = numbered(4)
    assert [str(split) for split in fixed.sync("b")] == [
        "shop/train: 1 added, 3 unchanged, 0 removed",
        "shop/test: 0 added, 2 unchanged, 0 removed",
    ]
    assert fixed.asked == 4
    sync_now(listing({"train": []}, "other"))  # hosts others
    assert (len(fixed.sync("b")), fixed.asked, Environment.objects.get(name="shop").is_hosted) == (
        2,
        4,
        True,
    )
    assert specs() == ['{"n":0}', '{"n":1}', '{"n":2}', '{"n":3}']


def test_a_class_whose_code_is_unknown_is_asked_for_its_tasks() -> None:
    fixed = FixedTasks({"train": numbered(3)})
    fixed.sync()
    fixed.sync(None)
    fixed.sync()
    assert fixed.asked == 3


def test_a_class_whose_code_is_not_known_completely_is_asked_at_each_start_and_that_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "environments.tasks.fixed_tasks")
    fixed = FixedTasks({"train": numbered(3)})
    fixed.sync()
    fixed.sync(unread="module rules, which is compiled")
    fixed.tasks["train"] = numbered(4)
    fixed.sync(unread="module rules, which is compiled")
    assert (len(specs()), fixed.asked) == (4, 3)
    assert (
        caplog.text.count("fixed_tasks has no effect") == 2
        and "module rules, which is compiled" in caplog.text
    )
    fixed.sync()
    assert fixed.asked == 4


def test_what_has_to_be_reported_at_each_start_is_reported_of_fixed_tasks_too() -> None:
    fixed = FixedTasks({"train": numbered(1), "test": numbered(1)})
    fixed.sync()
    Split.objects.filter(name="train").update(frozen=timezone.now())
    fixed.tasks["train"] = numbered(2)
    fixed.sync("b")
    assert [split.is_frozen for split in fixed.sync("b")] == [True, False]
    Split.objects.filter(name="train").delete()
    assert [split.added for split in fixed.sync("b")] == [2, 0]


def test_tasks_that_others_have_written_under_the_name_are_not_taken_for_fixed_ones() -> None:
    fixed = FixedTasks({"train": numbered(2)})
    fixed.sync()
    asyncio.run(synced_beside(listing({"train": numbered(3, start=7)})))
    assert len(specs()) == 3
    fixed.sync()
    assert (specs(), fixed.asked) == (['{"n":0}', '{"n":1}'], 2)
    fixed.tasks["train"] = numbered(4)
    fixed.sync(name="another")  # of the same code, as those that a function makes
    assert len(specs()) == 4


def test_fixed_tasks_are_no_longer_served_from_a_split_that_the_class_has_given_up() -> None:
    fixed = FixedTasks({"train": numbered(1), "test": numbered(1)})
    fixed.sync()
    del fixed.tasks["test"]
    fixed.sync()
    assert list(Split.objects.filter(is_served=True).values_list("name", flat=True)) == ["train"]


def test_a_subclass_has_to_say_itself_that_its_tasks_are_fixed() -> None:
    fixed = FixedTasks({"train": numbered(1)}).hosted()
    assert fixed.has_fixed_tasks
    assert not HostedClass(type("Mine", (fixed.cls,), {}), "mine").has_fixed_tasks
