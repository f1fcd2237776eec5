"""Where apps that are built on this one quote splits. Each registers that when it is ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from environments.models import Split

Quotation = Callable[["Split"], str]
"""Returns where the tasks of a split were quoted; empty if nowhere."""
QUOTATIONS: list[Quotation] = []


def register_quotation(quotation: Quotation) -> None:
    if quotation not in QUOTATIONS:
        QUOTATIONS.append(quotation)
