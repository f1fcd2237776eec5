"""Tables that one test goes through: a test for a behaviour, whose failure names every row that is
wrong.

    @each("text, number", [("one", 1), ("two", 2)])
    def test_it_reads_numbers(text: str, number: int) -> None:
        assert read(text) == number

It takes what `pytest.mark.parametrize` takes, which is for rows that need fixtures or a database of
their own: all rows share the fixtures of one test.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

import pytest

ParameterSet = type(pytest.param())
Test = TypeVar("Test", bound=Callable[..., Any])
MAX_SHOWN = 300


def each(
    names: str | Sequence[str], rows: Iterable[Any], *, ids: Any = None
) -> Callable[[Test], Test]:
    """Call the test with each row. `ids`: as in pytest, a name for each row, or a function that
    names its values."""
    named = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    tried = list(_cases(named, list(rows), ids))

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        fixtures = [
            parameter for name, parameter in signature.parameters.items() if name not in named
        ]

        def run(**given: Any) -> None:
            wrong: list[BaseException] = []
            for name, values in tried:
                with _noted(wrong, name):
                    test(**given, **values)
            _report(wrong, len(tried))

        async def run_async(**given: Any) -> None:
            wrong: list[BaseException] = []
            for name, values in tried:
                with _noted(wrong, name):
                    await test(**given, **values)
            _report(wrong, len(tried))

        chosen = wraps(test)(run_async if inspect.iscoroutinefunction(test) else run)
        chosen.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]  # of pytest's choice
        return cast(Test, chosen)

    return decorate


def _cases(names: list[str], rows: list[Any], ids: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a name and the arguments for each row."""
    assert rows, "a test without rows would pass"
    given = [None] * len(rows) if ids is None or callable(ids) else list(ids)
    for row, name in zip(rows, given, strict=True):
        if isinstance(row, ParameterSet):
            row, name = row.values if len(names) > 1 else row.values[0], row.id
        values = (row,) if len(names) == 1 else tuple(row)
        shown = ids(row) if callable(ids) and len(names) == 1 else name
        yield str(shown or repr(row))[:MAX_SHOWN], dict(zip(names, values, strict=True))


@contextmanager
def _noted(wrong: list[BaseException], name: str) -> Iterator[None]:
    """Add what is raised in the block to `wrong`, with the row's name."""
    try:
        yield
    except (Exception, BaseExceptionGroup, pytest.fail.Exception) as error:
        error.add_note(f"in the row {name}")
        wrong.append(error)


def _report(wrong: list[BaseException], count: int) -> None:
    if wrong:
        raise BaseExceptionGroup(f"{len(wrong)} of {count} rows are wrong", wrong)
