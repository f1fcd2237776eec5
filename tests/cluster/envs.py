"""Environments of the tests on a cluster."""

from __future__ import annotations

from tests.envs_fatal import Together
from tests.envs_returning import Adding, SavingAndAdding, Telling


class AddingHere(Adding):
    """Adds numbers up in the server's own process."""

    isolation = "none"


class SavingInWorkers(SavingAndAdding):
    """Adds numbers up in worker processes, and is saved after every second call."""

    isolation = "process"


class TellingHere(Telling):
    """Adds numbers up in the server's own process, and has a secret."""

    isolation = "none"


class TellingInWorkers(Telling):
    """The same in worker processes."""

    isolation = "process"


class Demanding(Together):
    """An environment for machines with a telescope, which there are none of."""

    resources = {"CPU": 0.5, "telescope": 1}
