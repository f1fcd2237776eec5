"""Commands as a page names them: such that they can be pasted into a shell beside the server. Used by templates.

Strangers and guests are not told where on its machine the server lies. Without keys there are none.
"""

from __future__ import annotations

from typing import Any

from django import template

from environments import command_line, conf

register = template.Library()


@register.simple_tag(takes_context=True)
def command(context: dict[str, Any], *arguments: str) -> str:
    """`{% command "serve" environment.class_path %}`"""
    user = getattr(context.get("request"), "user", None)
    is_ours = user.is_authenticated if user is not None else not conf.has_keys()
    told = " ".join(arguments)
    return command_line.command(told) if is_ours else f"manage.py {told}"
