"""Target: which splits an import may go into, and what is said of the others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from environments.curation.action import ActionRefused
from environments.curation.transfer.target import ImportTarget, environment_named
from environments.files.rows import TransferError
from environments.models import Environment, Split
from environments.tasks.split_errors import FrozenSplit
from tests.environments.curation.transfer.files import Shelf
from tests.rows import each

pytestmark = pytest.mark.django_db(transaction=True)

APPLE = {"name": "apple"}


def test_a_frozen_split_refuses_an_import(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE))
    Split.objects.update(frozen=datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(
        FrozenSplit,
        match=r"Split 'train' of 'shop' is frozen\. Unfreeze it to "
        r"change it",
    ):
        shelf.target()


def test_an_unknown_split_is_reported_with_the_nearest_and_how_to_make_it(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE))
    sentence = (
        "'shop' has no split 'trian', but 'train'. To create it, give its type: .* Did you mean "
        "'train'?"
    )
    with pytest.raises(TransferError, match=sentence.replace("?", r"\?")):
        ImportTarget.of(shelf.environment, "trian")


def test_an_unknown_environment_is_reported_with_the_nearest(shelf: Shelf) -> None:
    with pytest.raises(
        TransferError,
        match=r"No environment is named 'shap'\. Did you mean "
        r"'shop'\?",
    ):
        environment_named("shap")


@each("name", ["", "a/b", "a\0b", "x" * 201, "a\nb"])
def test_a_split_is_not_named_just_anything(shelf: Shelf, name: str) -> None:
    with pytest.raises(ActionRefused, match=r"[Ss]plit"):
        ImportTarget.of(shelf.environment, name, "train")


def test_a_split_of_another_type_is_reported(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE))
    with pytest.raises(
        TransferError, match="The split 'train' already exists, with type train; leave out the type"
    ):
        ImportTarget.of(shelf.environment, "train", "test")


def test_a_procedural_split_takes_no_tasks(shelf: Shelf) -> None:
    Split.objects.create(environment=shelf.environment, name="train", type="train", version=1)
    Environment.objects.update(is_procedural=True)
    with pytest.raises(
        TransferError, match="'shop' generates the tasks of 'train' itself; import into a new split"
    ):
        ImportTarget.of(shelf.environment, "train")
