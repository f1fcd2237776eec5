"""The mark of a private environment, which every list of environments shows next to its name."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString

from environments.access.privacy import who_sees
from environments.models import Environment


def private_tag(environment: Environment) -> SafeString | str:
    """Return the mark, whose title says who sees the environment, with two queries; empty if it is
    not private."""
    if not environment.is_private:
        return ""
    return format_html('<span class="tag" title="{}">private</span>', who_sees(environment))
