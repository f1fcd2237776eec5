"""Admin pages of retention periods."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminTextInputWidget

from environments.access.privacy import viewer_of
from environments.admin import StrictList
from environments.models import Environment
from environments.models.viewer import visible_environments
from episodes.models import Retention, Run

MAX_RETENTION_DAYS = 100_000


class NamedRun(ModelChoiceField):  # type: ignore[type-arg]
    """A run that is typed by its name, because there may be too many of them for a list."""

    default_error_messages: ClassVar = {"invalid_choice": "There is no run of this name."}

    def __init__(self, **kwargs: Any) -> None:
        kwargs["help_text"] = "Its name, unless an environment is chosen"
        kwargs["widget"] = UnfoldAdminTextInputWidget()
        super().__init__(**kwargs | {"to_field_name": "name"})

    def prepare_value(self, value: Any) -> Any:
        """Return the name of a number, which is what the row has; what was typed stays."""
        return str(Run.objects.get(pk=value)) if isinstance(value, int) else value


@admin.register(Retention)
class RetentionAdmin(StrictList, ModelAdmin):  # type: ignore[misc]  # unfold has no types
    list_display = ("of", "kept")
    list_select_related = ("environment", "run")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Retention]:
        rows: QuerySet[Retention] = super().get_queryset(request)
        viewer = viewer_of(request.user)
        if not (condition := visible_environments(viewer)):
            return rows
        return rows.filter(condition, Q(run=None) | Q(run__in=Run.objects.seen_by(viewer)))

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer and accept only what exists for the person."""
        viewer = viewer_of(request.user)
        if db_field.name == "environment":
            kwargs["queryset"] = Environment.objects.seen_by(viewer)
        if db_field.name == "run":
            rows = Run.objects.seen_by(viewer)
            return db_field.formfield(form_class=NamedRun, queryset=rows)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Leave out what Django wraps around the list of a relation: it needs numbers."""
        if db_field.name == "days":
            # 0 in ORSWEB_RETENTION_DAYS keeps everything, and here it would delete it
            kwargs |= {"min_value": 1, "max_value": MAX_RETENTION_DAYS}
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "run":
            field.widget = field.widget.widget
        return field

    @admin.display(description="environment or run")
    def of(self, row: Retention) -> str:
        return f"environment {row.environment}" if row.environment else f"run {row.run}"

    @admin.display(description="episodes are kept for")
    def kept(self, row: Retention) -> str:
        return str(row).rpartition(": ")[2]
