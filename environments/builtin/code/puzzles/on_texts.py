"""Kinds of puzzles whose input is a text."""

from __future__ import annotations

from itertools import groupby
from random import Random

from environments.builtin.code.puzzles.puzzle import (
    ORDINALS,
    Kind,
    Puzzle,
    letters,
    sentence,
    words,
)

VOWELS = "aeiou"


def _cipher(random: Random) -> Puzzle:
    by, digits_by = random.randint(2, 24), random.randint(1, 9)

    def turned(char: str) -> str:
        if char.isdigit():
            return str((int(char) + digits_by) % 10)
        first = "a" if char.islower() else "A"
        return chr((ord(char) - ord(first) + by) % 26 + ord(first)) if char.isalpha() else char

    text = (
        f"Replace every letter a-z by the one {by} places further in the alphabet (after z comes "
        f"a; capitals stay capitals), and every digit by the one {digits_by} further (after 9 "
        "comes 0). Everything else stays."
    )

    def draw(r: Random) -> tuple[str]:
        return (
            f"{sentence(r, 5)}{r.choice(['', '!', ' - '])}{r.choice(['', r.randint(0, 9999)])}",
        )

    return Puzzle("cipher(text: str) -> str", text, lambda text: "".join(map(turned, text)), draw)


def _squeeze(random: Random) -> Puzzle:
    least, mark = random.randint(2, 4), random.choice("*#@%~")

    def solve(text: str) -> str:
        runs = [(char, len(list(run))) for char, run in groupby(text)]
        return "".join(
            f"{count}{mark}{char}" if count >= least else char * count for char, count in runs
        )

    text = (
        f"Replace every run of at least {least} equal characters by its length, the sign {mark!r} "
        f"and the character: with 'q' five times in a row, that is '5{mark}q'. Shorter runs stay."
    )
    return Puzzle("squeeze(text: str) -> str", text, solve, lambda r: (letters(r, 24, "abxyz"),))


def _rich_words(random: Random) -> Puzzle:
    vowels, length = random.randint(1, 3), random.randint(4, 7)

    def solve(text: str) -> int:
        return sum(
            len(w) >= length and sum(c in VOWELS for c in w.lower()) >= vowels for w in text.split()
        )

    text = (
        f"Count the words of the text that have at least {length} letters and, among them, at "
        f"least {vowels} of the "
        f"vowels a, e, i, o, u. Capitals count like small letters. Words are separated by blanks."
    )
    return Puzzle("rich_words(text: str) -> int", text, solve, lambda r: (sentence(r, 14),))


def _turn_words(random: Random) -> Puzzle:
    length, is_upper = random.randint(4, 7), random.random() < 0.5
    every = random.randint(2, 4)

    def solve(text: str) -> str:
        result = [word[::-1] if len(word) >= length else word for word in text.split()]
        change = str.upper if is_upper else str.title
        return " ".join(
            change(word) if n % every == 0 else word for n, word in enumerate(result, 1)
        )

    how = "in capitals" if is_upper else "with a capital first letter and small letters after it"
    text = (
        f"Write every word of at least {length} letters backwards. Then write every "
        f"{ORDINALS[every]} word of the "
        f"result {how}. Words are separated by single blanks, in the text as in the result."
    )
    return Puzzle("turn_words(text: str) -> str", text, solve, lambda r: (" ".join(words(r)),))


def _rename(random: Random) -> Puzzle:
    old, new = random.sample(["_", "-", ".", "/", ":"], 2)
    longest = random.randint(2, 5)

    def solve(name: str) -> str:
        parts = [part for part in name.split(old) if part]
        return new.join(part[0].upper() + part[1:longest] for part in parts)

    text = (
        f"A name consists of parts separated by {old!r}; parts that are empty are left out. Keep "
        f"the first {longest} characters of each part, write its first letter as a capital, and "
        f"join the parts with {new!r}."
    )

    def draw(r: Random) -> tuple[str]:
        return (old.join(w if r.random() < 0.85 else "" for w in words(r, 6)),)

    return Puzzle("rename(name: str) -> str", text, solve, draw)


def _mask(random: Random) -> Puzzle:
    clear, sign = random.randint(1, 4), random.choice("*#x?_")
    is_front = random.random() < 0.5

    def masked(run: str) -> str:
        stars = sign * max(0, len(run) - clear)
        return run[:clear] + stars if is_front else stars + run[-clear:]

    def solve(text: str) -> str:
        return "".join(
            masked("".join(run)) if are else "".join(run) for are, run in groupby(text, str.isdigit)
        )

    text = (
        f"In every unbroken run of digits, replace each digit by {sign!r} except for the "
        f"{'first' if is_front else 'last'} {clear}. Everything else stays."
    )

    def draw(r: Random) -> tuple[str]:
        return (
            "".join(
                r.choice(words(r) or ["-"]) + str(r.randint(0, 10 ** r.randint(1, 9)))
                for _ in range(3)
            ),
        )

    return Puzzle("mask(text: str) -> str", text, solve, draw)


def _favourite(random: Random) -> Puzzle:
    exceptions = "".join(sorted(random.sample("aeiourstln", random.randint(1, 4))))
    is_last = random.random() < 0.5

    def solve(text: str) -> str:
        characters = [c for c in text.lower() if c.isalpha() and c not in exceptions]
        order = sorted(set(characters), reverse=is_last)
        return max(order, key=characters.count, default="")

    text = (
        "Return the letter that occurs most often in the text, as a small letter; capitals count "
        f"like small letters. The letters {', '.join(exceptions)} do not count. Of several "
        f"equally frequent ones return the {'last' if is_last else 'first'} in the alphabet; "
        "without any letter return ''."
    )
    return Puzzle("favourite(text: str) -> str", text, solve, lambda r: (sentence(r, 6),))


def _wrap(random: Random) -> Puzzle:
    width, joint = random.randint(12, 24), random.choice(["|", "/", " / ", "\n", ";"])

    def solve(text: str) -> str:
        lines: list[str] = []
        for word in text.split():
            if lines and len(lines[-1]) + 1 + len(word) <= width:
                lines[-1] += f" {word}"
            else:
                lines.append(word)
        return joint.join(lines)

    text = (
        f"Break the text into lines of at most {width} characters: each line takes as many words "
        "as fit, with single blanks between them. No word is longer than a line. Return the lines "
        f"joined with {joint!r}."
    )
    return Puzzle("wrap(text: str) -> str", text, solve, lambda r: (sentence(r, 14),))


def _depth(random: Random) -> Puzzle:
    pairs = random.sample(["()", "[]", "{}", "<>"], random.randint(2, 3))
    wrong = random.choice([-1, -2, -5, 0])
    opening = {pair[0]: pair[1] for pair in pairs}
    plus = random.randint(1, 3)

    def solve(text: str) -> int:
        deepest, stack = 0, list[str]()
        for char in text:
            if char in opening:
                stack.append(opening[char])
                deepest = max(deepest, len(stack))
            elif char in opening.values() and (not stack or stack.pop() != char):
                return wrong
        return wrong if stack else deepest * plus

    text = (
        f"The brackets {' and '.join(pairs)} may be nested. Return {plus} times the depth of the "
        f"deepest nesting (0 without brackets), or {wrong} if brackets do not match. All other "
        "characters, other brackets included, do not matter."
    )

    def nested(r: Random, levels: int) -> str:
        parts = [r.choice(["", "a", nested(r, levels - 1) if levels else ""]) for _ in range(2)]
        pair = r.choice(pairs)
        return (
            f"{parts[0]}{pair[0]}{parts[1]}{pair[1]}" if r.random() < 0.95 else parts[0] + pair[0]
        )

    def draw(r: Random) -> tuple[str]:
        return ("".join(nested(r, 4) for _ in range(r.randint(0, 3))),)

    return Puzzle("depth(text: str) -> int", text, solve, draw)


def _common(random: Random) -> Puzzle:
    is_whole, cost = random.random() < 0.5, random.randint(1, 4)
    vowel = random.randint(2, 5)

    def worth(char: str) -> int:
        return vowel if char in VOWELS else cost

    def solve(first: str, second: str) -> int:
        best, row = 0, [0] * (len(second) + 1)
        for a in first:
            before, row = row, [0]
            for n, b in enumerate(second):
                same = before[n] + worth(a) if a == b else 0
                row.append(same if is_whole else max(same, before[n + 1], row[n]))
            best = max(best, *row)
        return best

    what = (
        "substring (characters that stand next to each other)"
        if is_whole
        else "subsequence (characters in the same order, not necessarily next to each other)"
    )
    text = (
        f"A vowel (a, e, i, o, u) is worth {vowel}, any other letter {cost}. Of all texts that are "
        f"a {what} of both "
        f"`first` and `second`, return what the most valuable one is worth; 0 if there is none."
    )

    def draw(r: Random) -> tuple[str, str]:
        return letters(r, 14, "abeil"), letters(r, 14, "abeit")

    return Puzzle("common(first: str, second: str) -> int", text, solve, draw)


KINDS: list[tuple[int, Kind]] = [
    (2, _cipher),
    (2, _squeeze),
    (1, _rich_words),
    (1, _turn_words),
    (1, _rename),
    (2, _mask),
    (1, _favourite),
    (2, _wrap),
    (3, _depth),
    (4, _common),
]
"""Kinds of puzzles with their difficulty, 1 to 4."""
