"""Commands as a page names them: such that they can be pasted into a shell beside the server. Used by templates."""

from __future__ import annotations

from django import template

from environments import invocation

register = template.Library()


@register.simple_tag
def command(*arguments: str) -> str:
    """`{% command "serve" environment.class_path %}`"""
    return invocation.command(" ".join(arguments))
