"""Kinds of puzzles on records, grids and nested lists, with rules to follow."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from environments.builtin.code.puzzles.puzzle import WORDS, Kind, Puzzle, grid, intervals, words


def _stock(random: Random) -> Puzzle:
    most, is_dropped = random.randint(8, 20), random.random() < 0.5

    def solve(moves: list[list[Any]]) -> dict[str, int]:
        stock: dict[str, int] = {}
        for kind, item, count in moves:
            have = stock.get(item, 0)
            if kind == "in":
                stock[item] = min(most, have + count)
            elif count <= have:
                stock[item] = have - count
        return {item: count for item, count in stock.items() if count or not is_dropped}

    rule = (
        "Items of which none are left do not appear."
        if is_dropped
        else "Items stay in it when none are left."
    )
    text = (
        "A store starts empty. Each move is ['in', item, count] or ['out', item, count]. Of one "
        f"item there is room for {most}; what comes in beyond that is lost. An 'out' of more than "
        "is there does nothing. Return a dict from each item that ever came in to its count. "
        f"{rule}"
    )

    def draw(r: Random) -> tuple[list[list[Any]]]:
        moves = [
            [r.choice(["in", "in", "out"]), r.choice(["nut", "bolt", "gear"]), r.randint(1, 9)]
            for _ in range(r.randint(0, 12))
        ]
        items = {item for kind, item, _ in moves if kind == "in"}
        return ([move for move in moves if move[1] in items],)

    return Puzzle("stock(moves: list[list]) -> dict[str, int]", text, solve, draw)


def _election(random: Random) -> Puzzle:
    points = sorted(random.sample(range(1, 10), 3), reverse=True)
    is_last = random.random() < 0.5

    def solve(ballots: list[list[str]]) -> str | None:
        score: dict[str, int] = {}
        for ballot in ballots:
            for name, worth in zip(ballot, points, strict=False):
                score[name] = score.get(name, 0) + worth
        return max(sorted(score, reverse=is_last), key=lambda name: score[name], default=None)

    text = (
        f"Each ballot lists names, the best first. The first of a ballot gets {points[0]} points, "
        f"the second {points[1]}, the third {points[2]}, further ones none. Return the name with "
        f"the most points; of several the {'last' if is_last else 'first'} in the alphabet; None "
        "without any ballots."
    )

    def draw(r: Random) -> tuple[list[list[str]]]:
        return (
            [
                r.sample(["ada", "ben", "cleo", "dan", "eva"], r.randint(1, 5))
                for _ in range(r.randint(0, 6))
            ],
        )

    return Puzzle("election(ballots: list[list[str]]) -> str | None", text, solve, draw)


def _paths(random: Random) -> Puzzle:
    moves = random.choice(
        [
            ((0, 1), (1, 0)),
            ((0, 1), (1, 0), (1, 1)),
            ((0, 1), (1, 0), (0, 2)),
            ((0, 1), (1, 0), (2, 1)),
        ]
    )
    wall, modulus = random.choice("#X@"), random.choice([97, 1000, 10007])

    def solve(rows: list[str]) -> int:
        ways = [[0] * len(rows[0]) for _ in rows]
        for y, row in enumerate(rows):
            for x, mark in enumerate(row):
                come = sum(ways[y - dy][x - dx] for dy, dx in moves if y >= dy and x >= dx)
                ways[y][x] = 0 if mark == wall else 1 if x == y == 0 else come
        return ways[-1][-1] % modulus

    words_by_step = {
        (0, 1): "one to the right",
        (1, 0): "one down",
        (1, 1): "one down and one to the right",
    }
    words_by_step |= {
        (0, 2): "two to the right, over whatever is between",
        (2, 1): "two down and one to the right, over anything",
    }
    text = (
        f"`rows` is a grid with walls {wall!r} and free places '.'. A step goes "
        f"{', or '.join(words_by_step[m] for m in moves)}, and ends on a free place. Return in how many "
        "ways one gets from the "
        f"top left to the bottom right place, modulo {modulus}; 0 if either is a wall."
    )
    return Puzzle(
        "paths(rows: list[str]) -> int", text, solve, lambda r: (grid(r, 9, "......" + wall),)
    )


def _islands(random: Random) -> Puzzle:
    land, least, is_diagonal = random.choice("#o*"), random.randint(1, 4), random.random() < 0.5

    def size(rows: list[str], visits: set[tuple[int, int]], todo: list[tuple[int, int]]) -> int:
        count = 0
        while todo:
            y, x = todo.pop()
            inside = 0 <= y < len(rows) and 0 <= x < len(rows[0])
            if (y, x) in visits or not inside or rows[y][x] != land:
                continue
            visits.add((y, x))
            count += 1
            near = [
                (dy, dx)
                for dy in (-1, 0, 1)
                for dx in (-1, 0, 1)
                if is_diagonal or not dy or not dx
            ]
            todo += [(y + dy, x + dx) for dy, dx in near]
        return count

    def solve(rows: list[str]) -> int:
        visits: set[tuple[int, int]] = set()
        return sum(
            size(rows, visits, [(y, x)]) >= least
            for y in range(len(rows))
            for x in range(len(rows[0]))
        )

    touch = "touch at a side or a corner" if is_diagonal else "share a side"
    text = (
        f"`rows` is a map with land {land!r} and water '.'. Places of land that {touch} belong to "
        "one island. Return "
        f"the number of islands of at least {least} {'place' if least == 1 else 'places'}."
    )
    return Puzzle(
        "islands(rows: list[str]) -> int", text, solve, lambda r: (grid(r, 9, ".." + land),)
    )


def _leaper(random: Random) -> Puzzle:
    a, b = sorted(random.sample(range(0, 5), 2))
    size = random.randint(6, 10)

    def solve(start: list[int], goal: list[int]) -> int:
        todo, steps = deque([tuple(start)]), {tuple(start): 0}
        while todo:
            x, y = todo.popleft()
            for dx, dy in {
                (i * p, j * q) for p, q in ((a, b), (b, a)) for i in (-1, 1) for j in (-1, 1)
            }:
                place = (x + dx, y + dy)
                if place not in steps and all(0 <= n < size for n in place):
                    steps[place] = steps[x, y] + 1
                    todo.append(place)
        return steps.get(tuple(goal), -1)

    text = (
        f"On a board of {size} by {size} places, numbered from [0, 0], a piece moves {a} places "
        f"along one axis and {b} along the other, in any direction, and never off the board. "
        "Return the smallest number of moves from `start` to `goal`, or -1 if it cannot get there."
    )

    def draw(r: Random) -> tuple[list[int], list[int]]:
        return [r.randrange(size), r.randrange(size)], [r.randrange(size), r.randrange(size)]

    return Puzzle("leaper(start: list[int], goal: list[int]) -> int", text, solve, draw)


def _stack(random: Random) -> Puzzle:
    swap, double = (
        random.sample(["swap", "flip", "turn", "over"], 1)[0],
        random.choice(["dup", "copy", "twin"]),
    )
    empty, modulus = random.choice([0, -1, 7]), random.choice([100, 512, 999])

    def solve(program: str) -> int:
        stack: list[int] = []
        for token in program.split():
            if token == double:
                stack += stack[-1:]
            elif token == swap:
                stack[-2:] = stack[-2:][::-1]
            elif token in "+-*" and len(stack) > 1:  # nosec B105 # a token of a text
                right, left = stack.pop(), stack.pop()
                stack.append(
                    {"+": left + right, "-": left - right, "*": left * right}[token] % modulus
                )
            elif token not in "+-*":  # nosec B105 # a token of a text
                stack.append(int(token))
        return stack[-1] if stack else empty

    text = (
        "A program is a text of words separated by blanks. A number is put on a stack. '+', '-' "
        f"and '*' take the top two, compute (lower op top) modulo {modulus} and put the result "
        f"back; with fewer than two they do nothing. {double!r} puts a copy of the top on top, "
        f"{swap!r} exchanges the top two; with too few on the stack they do nothing. Return the "
        f"top at the end, or {empty} if the stack is empty."
    )

    def draw(r: Random) -> tuple[str]:
        some = ["+", "-", "*", "+", double, swap]
        return (
            " ".join(
                r.choice(some) if r.random() < 0.5 else str(r.randint(0, 30))
                for _ in range(r.randint(0, 14))
            ),
        )

    return Puzzle("run_stack(program: str) -> int", text, solve, draw)


def _robot(random: Random) -> Puzzle:
    wide, high, stride = random.randint(4, 9), random.randint(4, 9), random.randint(1, 3)

    def solve(moves: str) -> list[int]:
        x, y, dx, dy = 0, 0, 0, 1
        for move in moves:
            if move == "L":
                dx, dy = -dy, dx
            elif move == "R":
                dx, dy = dy, -dx
            else:
                by = stride if move == "F" else -1
                x, y = (x + by * dx) % wide, (y + by * dy) % high
        return [x, y]

    text = (
        f"A robot stands at [0, 0] and looks north (y grows). In `moves`, 'F' takes it {stride} "
        f"forward, 'B' 1 back, 'L' and 'R' turn it by a quarter on the spot. Its world is {wide} "
        f"wide (x from 0 to {wide - 1}) and {high} high and wraps around at all edges. Return "
        "where it ends, [x, y]."
    )

    def draw(r: Random) -> tuple[str]:
        return ("".join(r.choice("FFFBLR") for _ in range(r.randint(0, 25))),)

    return Puzzle("robot(moves: str) -> list[int]", text, solve, draw)


def _groups(random: Random) -> Puzzle:
    least, keep = random.randint(1, 3), random.randint(1, 3)
    by = random.choice(["first letter", "last letter", "length"])

    def key(word: str) -> str:
        return str(len(word)) if by == "length" else word[0] if by == "first letter" else word[-1]

    def solve(names: list[str]) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for name in sorted(set(names)):
            groups.setdefault(key(name), []).append(name)
        return {key: members[:keep] for key, members in groups.items() if len(members) >= least}

    text = (
        f"Group the different words by their {by}. Return a dict from the {by} (as a text) to the "
        f"first {keep} of the "
        f"group's words in alphabetical order, for the groups of at least {least} different words."
    )
    return Puzzle(
        "groups(names: list[str]) -> dict[str, list[str]]",
        text,
        solve,
        lambda r: (r.sample(WORDS, r.randint(0, 22)) + words(r, 3),),
    )


def _nested(random: Random) -> Puzzle:
    weight, is_odd = random.randint(2, 6), random.random() < 0.5

    def solve(tree: list[Any], level: int = 0) -> int:
        total = 0
        for node in tree:
            if isinstance(node, list):
                total += solve(node, level + 1)
            elif not is_odd or node % 2:
                total += node * weight**level
        return total

    text = (
        "`tree` is a list of numbers and of lists of the same kind, nested at will. Return the "
        f"sum of all {'odd ' if is_odd else ''}numbers, each multiplied by {weight} to the power "
        "of the number of lists around its own."
    )

    def branch(r: Random, levels: int) -> list[Any]:
        return [
            branch(r, levels - 1) if levels and r.random() < 0.4 else r.randint(-9, 20)
            for _ in range(r.randint(0, 4))
        ]

    return Puzzle("nested(tree: list) -> int", text, solve, lambda r: (branch(r, 4),))


def _bookings(random: Random) -> Puzzle:
    pause, worth = random.randint(0, 5), random.choice(["number", "length"])

    def solve(spans: list[list[int]]) -> int:
        # end, worth of the best choice whose last booking ends there
        best: list[tuple[int, int]] = []
        for start, end in sorted(spans, key=lambda span: span[1]):
            before = max((value for last, value in best if last + pause <= start), default=0)
            best.append((end, before + (1 if worth == "number" else end - start)))
        return max((value for _, value in best), default=0)

    what = (
        "the largest possible number of bookings"
        if worth == "number"
        else "the largest possible sum of their lengths"
    )
    text = (
        "Each booking of a room is [start, end]. Of those that are accepted, each has to start at "
        f"least {pause} after the end of the one before it. Return {what} that can be accepted "
        "together; 0 without bookings."
    )
    return Puzzle(
        "bookings(spans: list[list[int]]) -> int", text, solve, lambda r: (intervals(r, 10),)
    )


KINDS: list[tuple[int, Kind]] = [
    (2, _stock),
    (2, _election),
    (3, _paths),
    (3, _islands),
    (3, _leaper),
    (3, _stack),
    (2, _robot),
    (2, _groups),
    (3, _nested),
    (4, _bookings),
]
"""Kinds of puzzles with their difficulty, 1 to 4."""
