"""Stands in for the packages of three model providers, of which openreward needs only names of
types for annotations.

Importing the packages takes most of the CPU seconds that openreward takes to import, in each worker
of a test run and in each server that hosts environments written for it. Import this module before
openreward.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

NAMES = (
    "anthropic",
    "anthropic.types",
    "google.genai",
    "google.genai.types",
    "openai",
    "openai.types",
    "openai.types.responses",
)


class _Types(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return sys.modules.get(f"{self.__name__}.{name}", Any)


for _name in NAMES:
    sys.modules.setdefault(_name, _Types(_name))


def google_types() -> ModuleType:
    """Return the types of Google's package itself, for tests that send what they hold."""
    stand_ins = {name: sys.modules.pop(name) for name in NAMES}
    try:
        return importlib.import_module("google.genai.types")
    finally:
        sys.modules.update(stand_ins)
