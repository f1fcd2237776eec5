"""Environments of the tests on a cluster."""

from __future__ import annotations

from tests.envs_fatal import Together


class Demanding(Together):
    """An environment for machines with a telescope, which there are none of."""

    resources = {"CPU": 0.5, "telescope": 1}
