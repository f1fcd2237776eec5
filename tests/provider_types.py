"""Stands in for the packages of two model providers, of which openreward needs only names of types for its annotations.

Importing the packages takes three of the five CPU seconds that openreward takes to import, in each worker of a test run
and in each server that hosts environments written for it. Import this module before openreward.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

NAMES = ("anthropic", "anthropic.types", "openai", "openai.types", "openai.types.responses")


class _Types(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Any


for _name in NAMES:
    sys.modules.setdefault(_name, _Types(_name))
