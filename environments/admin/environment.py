"""Admin of environments: what each is, its splits and its tools."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.text import Truncator

from environments import wiring
from environments.admin.base import SUMMARY_CHARACTERS, ReadOnlyAdmin
from environments.models import Environment
from environments.parts import ToolPart, tools


def summary_of(environment: Environment) -> str:
    """The first line of its description."""
    return Truncator(environment.description.strip().partition("\n")[0]).chars(SUMMARY_CHARACTERS)


def hosted_tools(name: str) -> list[ToolPart] | None:
    """The class's tools; None where this process plays no class under `name`, or does not play yet."""
    service = wiring.current()
    hosted = service.registry.find(name) if service else None
    return tools(hosted.tools_json) if hosted else None


@admin.register(Environment)
class EnvironmentAdmin(ReadOnlyAdmin):
    page_template = "environments/environment.html"
    list_display = ("name", "summary", "is_hosted", "class_path")
    ordering = ("position", "name")
    empty = "Environments appear here once a server has hosted them: manage.py serve module:Class"

    @admin.display(description="what it is")
    def summary(self, environment: Environment) -> str:
        return summary_of(environment)

    def page(self, request: HttpRequest, row: Environment) -> dict[str, Any]:
        return {"splits": list(row.splits.all()), "tools": hosted_tools(row.name)}
