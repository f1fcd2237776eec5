"""Fields of forms for numbers, and for rows by their number, in the digits 0 to 9.

Django's own fields also take `1_000`, blanks around a number, and the digits of every script.
"""

from __future__ import annotations

from typing import Any

from django import forms

from environments.database.storable import id_in, number_in
from environments.errors import shorten


class WholeNumberField(forms.IntegerField):
    def to_python(self, value: Any) -> int | None:
        number = _number(value)
        if isinstance(number, float):
            raise forms.ValidationError(
                f"{shorten(str(value), 40)!r} is not a whole number. Enter digits, such as 12."
            )
        return number


class NumberField(forms.FloatField):
    def to_python(self, value: Any) -> Any:
        number = _number(value)
        try:
            return None if number is None else float(number)
        except OverflowError as error:
            raise forms.ValidationError(
                "The number is too large. The largest one is about 1.8e308."
            ) from error


class RowField(forms.ModelChoiceField):  # type: ignore[type-arg]  # not generic when it runs
    """A choice of a row by its number."""

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and value and id_in(value) is None:
            raise forms.ValidationError(
                self.error_messages["invalid_choice"], params={"value": value}
            )
        return super().to_python(value)


def _number(value: Any) -> int | float | None:
    if value in forms.Field.empty_values:
        return None
    if (number := number_in(str(value))) is None:
        raise forms.ValidationError(
            f"{shorten(str(value), 40)!r} is not a number. Enter digits, such as 12 or 0.5."
        )
    return number
