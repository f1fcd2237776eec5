"""Checks of splits and tasks: lists, counts and tasks by index agree, are repeatable and contain no
duplicates."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from itertools import combinations

from environments.checking.check_state import CheckState, canonical, same
from environments.checking.checked_environment import Broken, RequestRefused, Sample
from environments.display.text_normalization import normalized, tells_apart
from environments.wire import Split

MAX_SAMPLES = 8
"""Tasks of all splits that are played in sessions."""


async def check_tasks(state: CheckState) -> None:
    if not await _check_splits(state):
        return
    await _check_listings(state)
    _check_repeats(state)
    await _check_indexes(state)
    _check_schema(state)
    await _choose_samples(state)


async def _check_splits(state: CheckState) -> bool:
    splits = await state.environment.splits()
    try:
        names = [Split.model_validate(split).name for split in splits]
    except ValueError as error:
        state.report.fail("splits", f"The response of /splits is not a list of splits: {error}")
        return False
    twice = [name for name, count in Counter(names).items() if count > 1]
    problems = [f"Split {name!r} is listed twice; list each split once." for name in twice]
    problems += [] if names else ["There is no split; declare at least one, such as 'train'."]
    words = ", ".join(f"{split['name']} ({split['type']})" for split in splits)
    state.report.judge("splits", problems, f"It has {words}.")
    state.splits = list(dict.fromkeys(names))
    return bool(names)


async def _check_listings(state: CheckState) -> None:
    problems, unstable, sizes = [], [], []
    for split in state.splits:
        try:
            first, second = (
                await state.environment.tasks(split),
                await state.environment.tasks(split),
            )
        except (Broken, RequestRefused) as error:
            problems.append(str(error))
            continue
        state.listings[split] = first
        problems += [
            f"Task {split}[{index}] is {type(task).__name__}; a task is a JSON object."
            for index, task in enumerate(first or [])
            if not isinstance(task, dict)
        ]
        if not same(first, second):
            sizes_seen = [
                "no list of" if tasks is None else str(len(tasks)) for tasks in (first, second)
            ]
            where = f"{sizes_seen[0]} tasks, then {sizes_seen[1]}"
            if first and second and len(first) == len(second):
                pairs = enumerate(zip(first, second, strict=True))
                index = next(index for index, pair in pairs if not same(*pair))
                where = f"first at index {index}"
            unstable.append(f"Two listings of split {split!r} differ ({where}); {_STEADY}.")
        sizes.append(f"{split} has {'tasks by index' if first is None else len(first)}")
    state.report.judge("listings", problems, f"Every task is a JSON object: {', '.join(sizes)}.")
    state.report.judge("repeatable order", unstable, "A second listing is the same as the first.")
    empty = [split for split, tasks in state.listings.items() if tasks == []]
    if empty and len(empty) == len(state.splits):
        state.report.fail(
            "not empty",
            f"No split has a task ({', '.join(map(repr, empty))}), so there is nothing to play; let "
            "list_tasks return at least one.",
        )
    else:
        problems = [f"Split {split!r} has no task; add some or remove it." for split in empty]
        state.report.judge("not empty", problems, "No listed split is empty.", "warning")


_STEADY = (
    "seed random generators with a constant, and sort the elements of sets, directories and queries"
)


def _check_repeats(state: CheckState) -> None:
    hashes = {
        split: [canonical(task) for task in tasks or ()] for split, tasks in state.listings.items()
    }
    repeats = []
    for split, texts in hashes.items():
        if (double := len(texts) - len(set(texts))) > 0:
            index = next(index for index, text in enumerate(texts) if text in texts[:index])
            repeats.append(
                f"Split {split!r} repeats {double} of its tasks, first at index "
                f"{index}; list each once."
            )
    state.report.judge("no duplicates", repeats, "No split repeats a task.", "warning")
    problems = [
        f"Splits {split!r} and {other!r} share {both} tasks, so one cannot test the other."
        for split, other in combinations(state.splits, 2)
        if (both := len({*hashes.get(split, ())} & {*hashes.get(other, ())}))
    ]
    state.report.judge("separate splits", problems, "No task is in two splits.", "warning")
    near = _near_duplicates(state, hashes)
    state.report.judge(
        "distinct splits",
        near,
        "No task says the same as one of another split.",
        "warning",
    )


def _near_duplicates(state: CheckState, hashes: dict[str, list[str]]) -> list[str]:
    """Return a problem for each two splits with tasks that differ only in spelling, answers or
    labels."""
    texts = {split: defaultdict[str, set[str]](set) for split in state.splits}
    for split, tasks in state.listings.items():
        for task, exact in zip(tasks or (), hashes[split], strict=True):
            if isinstance(task, dict):
                texts[split][normalized(task)].add(exact)
    problems = []
    distinct = [
        split
        for split, exact in texts.items()
        if tells_apart(len(exact), sum(map(len, exact.values())))
    ]
    for first, second in combinations(distinct, 2):
        both = texts[first].keys() & texts[second].keys()
        if near := sum(not texts[first][text] & texts[second][text] for text in both):
            problems.append(
                f"Splits {first!r} and {second!r} have {near} tasks that say the same, apart from "
                "case, spaces, "
                "punctuation, empty fields, answers and labels such as a seed; keep each in one of "
                "them."
            )
    return problems


# --- by index -------------------------------------------------------------------------------------


async def _check_indexes(state: CheckState) -> None:
    check = "count and index"
    hosted_class = state.local.hosted if state.local else None
    # the SDK derives the other from the list
    if hosted_class and not (
        hosted_class.overrides("num_tasks") and hosted_class.overrides("get_task")
    ):
        state.report.skip(
            check, "The class only lists its tasks; count and index follow from the list."
        )
        return
    problems: list[str] = []
    for split in state.splits:
        try:
            problems += await _index_problems(state, split)
        except (Broken, RequestRefused) as error:
            problems.append(str(error))
    state.report.judge(
        check, problems, "Count, index and range agree, from the front and from the end."
    )


async def _index_problems(state: CheckState, split: str) -> list[str]:
    environment, listing = state.environment, state.listings.get(split)
    count = await environment.count(split)
    if listing is not None and count != len(listing):
        return [f"Split {split!r} counts {count} tasks and lists {len(listing)}; make both agree."]
    if not count:
        return [f"Split {split!r} has a count of 0; add tasks or remove it."]
    problems = []
    tasks = {
        index: await environment.task(split, index) for index in sorted({0, count // 2, count - 1})
    }
    for index, task in tasks.items():
        if listing is not None and not same(task, listing[index]):
            problems.append(f"Task {split}[{index}] differs from the list.")
        if not same(task, await environment.task(split, index)):
            problems.append(f"Task {split}[{index}] differs when it is requested again; {_STEADY}.")
        if not same(task, await environment.task(split, index - count)):
            problems.append(
                f"Index {index - count} of split {split!r} is not index {index}; negatives count "
                "from the end."
            )
    for beyond in (count, -count - 1):
        with suppress(RequestRefused):
            await environment.task(split, beyond)
            problems.append(
                f"Index {beyond} of split {split!r} with {count} tasks returns a task; "
                "raise IndexError."
            )
    for start, stop in [(0, 3), (count - 2, None), (-2, None), (count, count + 5), (2, 1)]:
        indexes = range(count)[start:stop]
        rows = await environment.task_range(split, start, stop)
        if not same(rows, [await environment.task(split, index) for index in indexes]):
            where = f"Range {start} to {'the end' if stop is None else stop} of split {split!r}"
            problems.append(
                f"{where} has {len(rows)} tasks that are not those of its {len(indexes)} indexes."
            )
    return problems


# --- content of the tasks -------------------------------------------------------------------------


def _check_schema(state: CheckState) -> None:
    from environments.tasks import task_schema

    hosted_class = state.local.hosted if state.local else None
    if hosted_class is None or hosted_class.declared("task_schema", None) is None:
        reason = (
            "The class declares no task_schema."
            if hosted_class
            else "The protocol does not transmit it."
        )
        state.report.skip("task schema", reason)
        return
    schema, problems = task_schema.schema_json(hosted_class), []
    for split, tasks in state.listings.items():
        for index, task in enumerate(tasks or ()):
            if problem := task_schema.check(schema, task):
                problems.append(f"Task {split}[{index}] does not match task_schema: {problem[0]}.")
    state.report.judge(
        "task schema", problems, "Every listed task matches the declared task_schema."
    )


async def _choose_samples(state: CheckState) -> None:
    """Choose the first, the last and some random tasks of each split."""
    random = state.random("samples")
    each = max(2, MAX_SAMPLES // max(1, len(state.splits)))
    for split in state.splits[: MAX_SAMPLES // 2]:
        listing = state.listings.get(split)
        try:
            count = await state.environment.count(split) if listing is None else len(listing)
            indexes = (
                sorted({0, count - 1, *(random.randrange(count) for _ in range(each - 2))})
                if count
                else []
            )
            tasks = [
                listing[i] if listing is not None else await state.environment.task(split, i)
                for i in indexes
            ]
        except (Broken, RequestRefused):  # reported by the checks before
            continue
        state.samples += [
            Sample(split, index, task) for index, task in zip(indexes, tasks, strict=True)
        ]
