"""Puzzle: one function to write, with a solution and a source of inputs; and what the kinds draw
their inputs from.

Driven by `bank.py`. A kind is a function from a generator of random numbers to one of its many
variants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

_WORDS = (
    "amber anchor apple arrow atlas badger banana barrel basket beacon berry bishop blossom "
    "bottle branch breeze brick bridge button cactus camel candle canyon carpet castle cedar "
    "cello cherry circle cobalt comet copper coral cotton cradle crystal daisy desert dolphin "
    "dragon eagle ember engine falcon feather fennel fiddle finch forest fossil garden garnet "
    "ginger glacier goose granite guitar hammer harbor hazel helmet heron hollow honey horizon "
    "iris ivory jacket jasper jungle kettle kiwi ladder lantern lemon lichen lily linen lizard "
    "lotus magnet mango maple marble meadow mirror monkey mosaic needle nickel ocean olive onyx "
    "opal orange orchid otter owl paddle panther parrot pebble pepper pigeon pine plum pocket "
    "pollen prairie prism puzzle quartz rabbit raven ribbon river rocket saddle saffron salmon "
    "sandal sapphire shadow silver sparrow spiral spruce summit sunset thistle thunder tiger "
    "timber topaz tulip tunnel turtle valley velvet violet walnut willow winter wizard wolf "
    "yarrow zebra zephyr"
)
WORDS = _WORDS.split()

ORDINALS = {2: "second", 3: "third", 4: "fourth", 5: "fifth"}


@dataclass(frozen=True, slots=True)
class Puzzle:
    """`signature` is the line after `def`; `draw` makes the arguments of one call, `solve` its result, both JSON."""

    signature: str
    text: str
    solve: Callable[..., Any]
    draw: Callable[[Random], tuple[Any, ...]]


Kind = Callable[[Random], Puzzle]


def numbers(random: Random, most: int = 12, low: int = -20, high: int = 50) -> list[int]:
    """Return up to `most` whole numbers; one list in eight is empty."""
    count = 0 if random.random() < 1 / 8 else random.randint(1, most)
    return [random.randint(low, high) for _ in range(count)]


def words(random: Random, most: int = 9) -> list[str]:
    """Return up to `most` words, some of them twice; one list in ten is empty."""
    count = 0 if random.random() < 1 / 10 else random.randint(1, most)
    pool = random.sample(WORDS, max(1, count * 2 // 3))
    return [random.choice(pool) for _ in range(count)]


def sentence(random: Random, most: int = 9) -> str:
    """Return words with single blanks between them, some capitalised."""
    return " ".join(
        word.capitalize() if random.random() < 0.25 else word for word in words(random, most)
    )


def letters(random: Random, most: int, alphabet: str) -> str:
    """Return a text over `alphabet` in which runs are frequent."""
    text = ""
    while len(text) < random.randint(0, most):
        text += random.choice(alphabet) * random.choice([1, 1, 1, 2, 3, 5])
    return text[:most]


def grid(random: Random, most: int, marks: str) -> list[str]:
    """Return two to `most` rows of two to `most` marks, all of equal length."""
    wide, high = random.randint(2, most), random.randint(2, most)
    return ["".join(random.choice(marks) for _ in range(wide)) for _ in range(high)]


def intervals(random: Random, most: int = 8) -> list[list[int]]:
    """Return pairs of a start and a later end."""
    starts = [random.randint(0, 60) for _ in range(random.randint(0, most))]
    return [[start, start + random.randint(1, 12)] for start in starts]
