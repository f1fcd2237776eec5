"""Why a split cannot be changed now."""

from __future__ import annotations

from environments.errors import OrsError
from environments.models import Split


class FrozenSplit(OrsError):
    def __init__(self, split: Split) -> None:
        super().__init__(
            f"Split {split.name!r} of {split.environment.name!r} is frozen. Unfreeze it to change it."
        )


class SplitBusy(OrsError):
    def __init__(self, split: Split) -> None:
        super().__init__(
            f"Split {split.name!r} of {split.environment.name!r} is being changed by someone else. "
            "Try again when that has finished, or in half a minute if it was interrupted."
        )


class SplitGone(OrsError):
    def __init__(self, split: Split) -> None:
        super().__init__(f"Split {split.name!r} no longer exists.")
