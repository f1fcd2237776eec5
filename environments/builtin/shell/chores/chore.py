"""Chore: something to do in a directory, with what it should look like afterwards. Driven by
`bank.py`.

A kind is a function from a generator of random numbers to one of its many variants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True)
class Chore:
    """`goals`: path -> content in the end; `solution`: a bash command that does it all, for tests; never in a task."""

    instruction: str
    files: Mapping[str, str]
    goals: Mapping[str, str]
    solution: str
    keep: Sequence[str] = ()
    gone: Sequence[str] = ()
    executables: Mapping[str, bool] = field(default_factory=dict)
    """Goals that ask for the mode too."""

    def spec(self) -> dict[str, Any]:
        """Return the spec that `Task` of `shell.py` describes, without `max_steps`."""
        goals = [
            {
                "path": path,
                "text": text,
                **({"is_executable": self.executables[path]} if path in self.executables else {}),
            }
            for path, text in self.goals.items()
        ]
        return {
            "instruction": self.instruction,
            "files": dict(self.files),
            "goals": goals,
            "keep": list(self.keep),
            "gone": list(self.gone),
        }


Kind = Callable[[Random], Chore]

_WORDS = (
    "amber atlas badger basin birch cable cedar cobalt comet copper coral crane delta ember fable "
    "falcon fern flint garnet glade harbor hazel heron iris ivory jade juniper kestrel lagoon "
    "larch lichen linen lotus maple marble marsh meadow mesa mint moss nectar nickel oasis olive "
    "onyx opal orchid osprey otter pebble pepper pine plover poplar prairie quartz raven reed "
    "ridge river robin rowan saffron sage salmon sequoia slate sorrel sparrow spruce stone summit "
    "thistle thrush tide topaz tundra valley velvet walnut willow wren yarrow zephyr"
)
WORDS = _WORDS.split()


def names(random: Random, count: int) -> list[str]:
    """Return `count` different words, sorted."""
    return sorted(random.sample(WORDS, count))


def lines(items: Sequence[object]) -> str:
    """Return a text with one item per line."""
    return "".join(f"{item}\n" for item in items)
