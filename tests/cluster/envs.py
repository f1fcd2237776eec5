"""Environments of the tests on a cluster."""

from __future__ import annotations

from tests.envs_fatal import Together
from tests.envs_returning import Adding


class AddingHere(Adding):
    """Adds numbers up in the server's own process."""

    isolation = "none"


class Demanding(Together):
    """An environment for machines with a telescope, which there are none of."""

    resources = {"CPU": 0.5, "telescope": 1}
