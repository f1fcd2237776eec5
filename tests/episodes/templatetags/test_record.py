"""Tests of the template filters for what is recorded."""

from __future__ import annotations

import pytest

from environments.display.formats import NONE
from episodes.templatetags.record import own_return
from tests.episodes.ended import end_episode

pytestmark = pytest.mark.django_db


def test_an_episode_that_was_not_set_up_has_no_return() -> None:
    assert own_return(end_episode(None, cause="setup_failed")) == NONE
    assert ">0.00<" in own_return(end_episode(0.0))
