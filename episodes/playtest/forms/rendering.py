"""A form as HTML, by `templates/playtest/form*.html`."""

from __future__ import annotations

from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from episodes.playtest.forms.form import Form


def html_of(form: Form) -> SafeString:
    """The controls of a form that was begun; the page's own `<form>` is around them."""
    return render_to_string("playtest/form.html", {"form": form, "slot": form.root, "prefix": form.prefix})


def problem_json(path: tuple[str | int, ...], message: str) -> dict[str, Any]:
    return {"path": list(path), "message": message}
