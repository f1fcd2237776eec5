"""What the objects in a line of an episode file have in common: types of members that a database
can store."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from environments.database.storable import MAX_BIGINT
from episodes.transfer.embedded_json import TEXT

_BIG = 2**31 - 1


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("the character NUL cannot be stored")
    return text


Text = Annotated[str, AfterValidator(_storable)]
Name = Annotated[Text, Field(max_length=200)]
Number = Annotated[int, Field(ge=-MAX_BIGINT, le=MAX_BIGINT)]
Count = Annotated[int, Field(ge=0, le=_BIG)]
Time = Annotated[AwareDatetime, Field(strict=False)]


class LinePart(BaseModel):
    """An object in a line. Unknown keys and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    def _text(self, name: str) -> str:
        """Return the exact text under `name` or `name_text`, or an empty text if neither is present."""
        return getattr(self, name) or getattr(self, f"{name}{TEXT}") or ""
