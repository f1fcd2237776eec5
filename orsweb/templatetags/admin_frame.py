"""Template tags for the frame of the admin, used by `templates/admin/base.html`."""

from __future__ import annotations

import re

from django import template
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

ICONS = {
    "add": "M12 5v14M5 12h14",
    "arrow_circle_down": "M12 5v14M6 13l6 6 6-6",
    "arrow_circle_up": "M12 19V5M6 11l6-6 6 6",
    "cancel": "M6 6l12 12M18 6L6 18",
    "check_small": "M6 12l4 4 8-8",
    "close": "M6 6l12 12M18 6L6 18",
    "close_small": "M8 8l8 8M16 8l-8 8",
    "delete": "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
    "edit": "M4 20l1-5L16 4l4 4L9 19z",
    "expand_more": "M6 9l6 6 6-6",
    "more_horiz": "M5 12h.01M12 12h.01M19 12h.01",
    "more_vert": "M12 5v.01M12 12v.01M12 19v.01",
    "question_mark": "M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 18v.01",
    "visibility": "M2 12c5-8 15-8 20 0-5 8-15 8-20 0zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6z",
}
"""Paths of icons in unfold's templates, by their names in the font that unfold has for them. The
font alone takes 292 kB, and a screen reader says the names."""
_ICON = re.compile(r"(<span[^>]*\bmaterial-symbols-outlined\b[^>]*>)\s*(\w*)\s*(?=</span>)")


@register.filter
def drawn_icons(html: str) -> SafeString:
    """Return the HTML with drawings in place of the names of icons; of unknown icons nothing is
    left."""
    return mark_safe(_ICON.sub(_drawing, html))  # nosec B308 # rendered already


def _drawing(icon: re.Match[str]) -> str:
    span, name = icon.groups()
    if name not in ICONS:
        return span
    return (
        f'{span}<svg viewBox="0 0 24 24" width="1em" height="1em" fill="none" '
        'stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" '
        f'aria-hidden="true"><path d="{ICONS[name]}"/></svg>'
    )
