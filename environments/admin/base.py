"""Base classes of the admin of both applications: read-only rows, and filters as chips."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold import paginator
from unfold.admin import ModelAdmin

from environments.access.local_operator import OPERATOR
from environments.access.privacy import viewer_of
from environments.admin.strict_list import StrictList
from environments.filtering.parameters import BadFilter
from environments.models import Environment
from environments.models.viewer import visible_environments

MAX_SUMMARY_CHARACTERS = 140


class InfinitePaginator(paginator.InfinitePaginator):  # type: ignore[misc]  # unfold has no types
    """Pages of rows that are never counted: one row more than a page shows says whether another one
    follows.

    Templates of unfold know it by its name; under another one, they show a number of rows.
    """

    template_name = "environments/pages.html"
    has_next = False

    def page(self, number: int) -> Any:
        first = (self.validate_number(number) - 1) * self.per_page
        rows = list(self.object_list[first : first + self.per_page + 1])
        self.has_next = len(rows) > self.per_page
        return self._get_page(rows[: self.per_page], number, self)


class ReadOnlyAdmin(StrictList, ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """Rows that people can look at and not edit. Lists never count their table, which may hold
    millions of rows.

    `page_template` shows one row, as `original` in a context to which `page` adds; without it, rows
    have no page.
    """

    page_template = ""
    paginator = InfinitePaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "environments/change_list.html"
    list_fullwidth = True
    list_per_page = 50
    sortable_by = ()
    actions = None
    page_parameters: tuple[str, ...] = ()
    """Parameters of the address of a row's page."""
    empty = ""
    """Message of an empty list, about the rows that it would show."""
    empty_command = ""
    """Command that fills the list; empty: none does."""
    to_environment = ""
    """Path from a row to its environment: rows of those that are hidden from the person do not
    exist for them."""
    is_about_all = False
    """Whether rows may be about anything, so that only people see them from whom nothing is
    hidden."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        if self.to_environment:
            viewer = viewer_of(request.user)
            rows = rows.filter(visible_environments(viewer, self.to_environment))
        return rows

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        may_view = bool(super().has_view_permission(request, obj))
        return may_view and not (self.is_about_all and viewer_of(request.user).hides_anything)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, object_id) if self.page_template else None
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[no-any-return]
        context = self.page_context(
            request, **{"title": str(row), "original": row, **self.page(request, row)}
        )
        return TemplateResponse(request, self.page_template, context)

    def page_context(self, request: HttpRequest, **variables: Any) -> dict[str, Any]:
        """Return the context of a page of this admin, with further variables."""
        context: dict[str, Any] = self.admin_site.each_context(request)
        return {**context, "opts": self.opts, "is_fullwidth": "1", **variables}

    def page(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the template variables that the page of `row` adds."""
        return {}


class ChipFilter(admin.SimpleListFilter):
    """A filter that is shown above its list as a chip; the address holds its state. Other values
    are refused."""

    def __init__(
        self, request: HttpRequest, params: dict[str, Any], model: type[Model], model_admin: Any
    ) -> None:
        super().__init__(request, params, model, model_admin)
        if (value := self.value()) and value not in dict(self.lookup_choices):
            raise BadFilter(str(self.parameter_name), value, self.allowed())

    def allowed(self) -> str:
        """Return which values are allowed."""
        return f"allowed are {', '.join(dict(self.lookup_choices))}"


class RowFilter(ChipFilter):
    """A filter by the number of another row."""

    column = ""
    """The column with that number; empty: it has the name of the parameter."""

    def allowed(self) -> str:
        return f"there is no {self.title} of that number"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if value := self.value():
            queryset = queryset.filter(**{self.column or str(self.parameter_name): value})
        return queryset


class EnvironmentFilter(RowFilter):
    title = "environment"
    parameter_name = "environment"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        rows = Environment.objects.seen_by(viewer_of(request.user))
        return [(str(pk), name) for pk, name in rows.values_list("pk", "name")]


def author_of(request: HttpRequest) -> str:
    """Return the name of the person who makes a change, as revisions store it."""
    name = request.user.get_username()
    return "operator" if name == OPERATOR else name


def note(user: int | None, row: Model, words: str, kind: int = CHANGE) -> None:
    """Write into Django's own log what was done to a row that has no revisions. `kind`: CHANGE or
    DELETION."""
    LogEntry.objects.create(
        user_id=cast(int, user),  # there is one: pages ask for a permission first
        content_type=ContentType.objects.get_for_model(row),
        object_id=str(row.pk),
        object_repr=str(row)[:200],
        action_flag=kind,
        change_message=words,
    )
