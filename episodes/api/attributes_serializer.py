"""The base of serializers of objects whose members are attributes: DRF takes longer to look for
members.

A curve has up to 500 points with 30 members each. The class has no docstring, because the OpenAPI
document would show it as that of its subclasses.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from rest_framework import serializers as s


class AttributesSerializer(s.Serializer[Any]):
    @cached_property
    def _members(self) -> list[tuple[str, str, s.Field[Any, Any, Any, Any]]]:
        return [(name, str(field.source), field) for name, field in self.fields.items()]

    def to_representation(self, instance: Any) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for name, attribute, field in self._members:
            value = getattr(instance, attribute)
            content[name] = None if value is None else field.to_representation(value)
        return content
