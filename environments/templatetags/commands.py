"""The tag `command`, which writes a command so that it can be pasted into a shell on the server's
machine.

Strangers and guests do not see the server's directory. A server without keys has neither.
"""

from __future__ import annotations

from typing import Any

from django import template

from environments import command_line, conf

register = template.Library()


@register.simple_tag(takes_context=True)
def command(context: dict[str, Any], *arguments: str) -> str:
    """Return the command line of manage.py: `{% command "serve" environment.class_path %}`."""
    user = getattr(context.get("request"), "user", None)
    is_ours = user.is_authenticated if user is not None else not conf.has_keys()
    words = " ".join(arguments)
    return command_line.command(words) if is_ours else f"manage.py {words}"
