"""Fixtures of the tests of curation."""

from __future__ import annotations

import pytest

from tests.environments.curation.tasks import SMALL_BATCH


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let actions write SMALL_BATCH tasks in one transaction, so that few tasks are more than one
    batch."""
    for module in (
        "curation.actions.membership",
        "curation.splits",
        "curation.work",
        "tasks.split_change",
    ):
        monkeypatch.setattr(f"environments.{module}.BATCH", SMALL_BATCH)
    monkeypatch.setattr("environments.curation.work.MAX_TOGETHER", SMALL_BATCH)
