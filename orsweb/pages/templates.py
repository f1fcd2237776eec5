"""Templates whose pages can be sent: lone surrogates, which JSON can contain and UTF-8 cannot,
become escapes."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.template.backends.django import DjangoTemplates, Template
from django.utils.safestring import SafeString, mark_safe

from environments.database.storable import is_encodable


class Templates(DjangoTemplates):
    def from_string(self, template_code: str) -> Template:
        return _Page(super().from_string(template_code).template, self)

    def get_template(self, template_name: str) -> Template:
        return _Page(super().get_template(template_name).template, self)


class _Page(Template):
    def render(
        self, context: dict[str, Any] | None = None, request: HttpRequest | None = None
    ) -> SafeString:
        page = super().render(context, request)
        if is_encodable(page):
            return mark_safe(page)  # nosec B308 B703 # as it is: the types of Django's stubs say `str`
        return mark_safe(page.encode("utf-8", "backslashreplace").decode())  # nosec B308 B703 # rendered above
