"""Kinds of puzzles whose input is a list."""

from __future__ import annotations

from random import Random
from typing import Any

from environments.builtin.code.puzzles.puzzle import (
    ORDINALS,
    Kind,
    Puzzle,
    intervals,
    numbers,
    words,
)


def _rotate(random: Random) -> Puzzle:
    every, is_right = random.randint(2, 5), random.random() < 0.5
    again = random.randint(1, 3)

    def solve(items: list[str], n: int) -> list[str]:
        by = n * again * (-1 if is_right else 1)
        order = [items[(place + by) % len(items)] for place in range(len(items))]
        return [item for place, item in enumerate(order, 1) if place % every]

    text = (
        f"Rotate the list by {again} * n places to the {'right' if is_right else 'left'}; n may "
        "be larger than the list or negative, which rotates the other way. Then leave out every "
        f"{ORDINALS[every]} item and return what remains."
    )
    return Puzzle(
        "rotate(items: list[str], n: int) -> list[str]",
        text,
        solve,
        lambda r: (words(r), r.randint(-9, 14)),
    )


def _windows(random: Random) -> Puzzle:
    size, is_largest = random.randint(2, 6), random.random() < 0.5
    by = random.randint(1, 3)

    def solve(values: list[int]) -> int | None:
        sums = [
            sum(values[start : start + size * by : by])
            for start in range(len(values) - (size - 1) * by)
        ]
        return (max(sums) if is_largest else min(sums)) if sums else None

    steps = (
        "consecutive numbers"
        if by == 1
        else f"numbers that stand {by} places apart from one to the next"
    )
    text = (
        f"Return the {'largest' if is_largest else 'smallest'} sum of {size} {steps}, or None if "
        "the list is too short."
    )
    return Puzzle(
        "windows(values: list[int]) -> int | None", text, solve, lambda r: (numbers(r, 24),)
    )


def _meter(random: Random) -> Puzzle:
    limit, back = random.randint(20, 90), random.randint(0, 9)

    def solve(values: list[int]) -> list[int]:
        total, readings = 0, []
        for value in values:
            total += value
            if total > limit:
                total = back
            readings.append(total)
        return readings

    text = (
        "A meter starts at 0 and adds the numbers one after the other. Whenever it then stands "
        f"above {limit} it falls "
        f"back to {back}. Return the list of what it shows after each number."
    )
    return Puzzle(
        "meter(values: list[int]) -> list[int]", text, solve, lambda r: (numbers(r, 14, -10, 50),)
    )


def _repeats(random: Random) -> Puzzle:
    least, most = random.choice([(1, 1), (1, 2), (2, 2), (2, 3), (2, 9), (3, 9)])
    is_last, is_backward = random.random() < 0.5, random.random() < 0.5

    def solve(items: list[str]) -> list[str]:
        order = list(dict.fromkeys(reversed(items) if is_last else items))
        repeats = [item for item in order if least <= items.count(item) <= most]
        return repeats[::-1] if is_last != is_backward else repeats

    often = {(1, 1): "exactly once", (2, 2): "exactly twice"}.get(
        (least, most), f"{least} to {most} times"
    )
    text = (
        f"Return the items that occur {often}, each once, ordered by the place of "
        f"their {'last' if is_last else 'first'} occurrence, "
        f"{'from the end to the start' if is_backward else 'from the start'}."
    )

    def draw(r: Random) -> tuple[list[str]]:
        return ([r.choice("abcdefg") for _ in range(r.randint(0, 14))],)

    return Puzzle("repeats(items: list[str]) -> list[str]", text, solve, draw)


def _order(random: Random) -> Puzzle:
    modulus, is_down, is_big_first = (
        random.randint(3, 9),
        random.random() < 0.5,
        random.random() < 0.5,
    )

    def solve(values: list[int]) -> list[int]:
        return sorted(
            values,
            key=lambda v: ((-1 if is_down else 1) * (v % modulus), -v if is_big_first else v),
        )

    text = (
        f"Sort the numbers by the remainder they leave when divided by {modulus} (which is never "
        f"negative), the {'largest' if is_down else 'smallest'} remainder first; among equal "
        f"remainders the {'largest' if is_big_first else 'smallest'} number first."
    )
    return Puzzle("order(values: list[int]) -> list[int]", text, solve, lambda r: (numbers(r, 14),))


def _calm(random: Random) -> Puzzle:
    step, is_strict = random.randint(2, 12), random.random() < 0.5

    def solve(values: list[int]) -> int:
        longest, length = 0, 0
        for n, value in enumerate(values):
            jump = abs(value - values[n - 1]) if n else None
            goes_on = jump is not None and jump <= step and not (is_strict and jump == 0)
            length = length + 1 if goes_on else 1
            longest = max(longest, length)
        return longest

    strict = " and at least 1" if is_strict else ""
    text = (
        "Return the length of the longest stretch of consecutive numbers in which neighbours "
        f"differ by at most {step}"
        f"{strict}. A single number is a stretch of length 1; the empty list gives 0."
    )
    return Puzzle("calm(values: list[int]) -> int", text, solve, lambda r: (numbers(r, 20, 0, 20),))


def _pairs(random: Random) -> Puzzle:
    modulus, gap = random.randint(3, 9), random.randint(1, 4)

    def solve(values: list[int]) -> int:
        places = range(len(values))
        return sum(
            (values[a] + values[b]) % modulus == 0 for a in places for b in places if b - a >= gap
        )

    text = (
        f"Count the pairs of places i < j with j - i at least {gap} whose numbers have a sum "
        f"divisible by {modulus}."
    )
    return Puzzle("pairs(values: list[int]) -> int", text, solve, lambda r: (numbers(r, 18),))


def _merge(random: Random) -> Puzzle:
    gap, least = random.randint(0, 6), random.randint(2, 16)

    def solve(spans: list[list[int]]) -> list[list[int]]:
        union: list[list[int]] = []
        for start, end in sorted(spans):
            if union and start - union[-1][1] <= gap:
                union[-1][1] = max(union[-1][1], end)
            else:
                union.append([start, end])
        return [span for span in union if span[1] - span[0] >= least]

    text = (
        "Each span is [start, end]. Merge spans that overlap, or between which a gap of at most "
        f"{gap} lies, into one, until none are left to merge. Return those of length end - start "
        f"at least {least}, sorted by start."
    )
    return Puzzle(
        "merge(spans: list[list[int]]) -> list[list[int]]",
        text,
        solve,
        lambda r: (intervals(r, 10),),
    )


def _chunks(random: Random) -> Puzzle:
    size, keep = random.randint(2, 5), random.choice(["first", "last", "largest", "smallest"])
    pick: Any = {"first": lambda c: c[0], "last": lambda c: c[-1], "largest": max, "smallest": min}[
        keep
    ]
    is_partial = random.random() < 0.5

    def solve(values: list[int]) -> int:
        chunks = [values[start : start + size] for start in range(0, len(values), size)]
        whole = [chunk for chunk in chunks if is_partial or len(chunk) == size]
        return int(sum((-1) ** n * pick(chunk) for n, chunk in enumerate(whole)))

    rest = (
        "a shorter chunk at the end counts too"
        if is_partial
        else "a shorter chunk at the end is left out"
    )
    text = (
        f"Cut the list into chunks of {size} numbers; {rest}. Take the {keep} number of each "
        "chunk, and return the "
        f"first chunk's minus the second's plus the third's and so on. Without chunks that is 0."
    )
    return Puzzle("chunks(values: list[int]) -> int", text, solve, lambda r: (numbers(r, 20),))


def _podium(random: Random) -> Puzzle:
    rank, default = random.randint(2, 5), random.choice([-1, 0, 100, 999])
    is_even, is_largest = random.random() < 0.5, random.random() < 0.5

    def solve(values: list[int]) -> int:
        places = sorted(
            {value for value in values if (value % 2 == 0) == is_even}, reverse=is_largest
        )
        return places[rank - 1] if len(places) >= rank else default

    text = (
        f"Of the different {'even' if is_even else 'odd'} numbers in the list, return the "
        f"{ORDINALS[rank]} "
        f"{'largest' if is_largest else 'smallest'}, or {default} if there are fewer than {rank}."
    )
    return Puzzle(
        "podium(values: list[int]) -> int", text, solve, lambda r: (numbers(r, 20, -9, 30),)
    )


KINDS: list[tuple[int, Kind]] = [
    (1, _rotate),
    (2, _windows),
    (1, _meter),
    (2, _repeats),
    (1, _order),
    (2, _calm),
    (2, _pairs),
    (3, _merge),
    (2, _chunks),
    (1, _podium),
]
"""Kinds of puzzles with their difficulty, 1 to 4."""
