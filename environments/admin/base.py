"""Base classes of the admin of both applications: read-only rows, and filters as chips."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import BadRequest, FieldDoesNotExist, PermissionDenied
from django.db.models import IntegerField, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.text import smart_split, unescape_string_literal
from unfold.admin import ModelAdmin
from unfold.paginator import InfinitePaginator

from environments.access.local_operator import OPERATOR
from environments.access.privacy import hidden_from, hides_anything, visible
from environments.database.folding import holding
from environments.database.storable import id_in
from environments.errors import shorten
from environments.models import Environment

MAX_SUMMARY_CHARACTERS = 140


class StrictList:
    """A list that refuses parameters which it does not have. Django leaves them out, and shows every row.

    Its search does not depend on case or accents, where Django's does in each database in its own way.
    """

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        model, filters = self.model, self.get_list_filter(request)  # type: ignore[attr-defined]  # of ModelAdmin
        own = {getattr(one, "parameter_name", "") for one in filters}  # which check their values
        for name in request.GET.keys() - own:
            value = request.GET[name]
            if value and _is_number(model, name) and None in map(id_in, value.split(",")):
                raise BadRequest(f"{name}={shorten(value, 80)!r} cannot be used: it has to be a number, such as 12.")
        try:
            return super().get_changelist_instance(request)  # type: ignore[misc]  # of ModelAdmin
        except IncorrectLookupParameters as error:
            query = shorten(request.GET.urlencode(), 200)
            raise BadRequest(
                f"This list has no filter like {query!r}. Open it without, and choose its filters there."
            ) from error

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the rows that have each word of a search in one of the columns, in whatever case and accents."""
        columns = self.get_search_fields(request)  # type: ignore[attr-defined]  # of ModelAdmin
        for word in smart_split(search_term) if columns else ():
            text = unescape_string_literal(word) if word[0] in "\"'" and word[0] == word[-1] else word
            queryset = queryset.filter(holding(queryset, text, columns))
        return queryset, False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the row of that number. Django reads others, such as 1_0, as if they were numbers, too."""
        if isinstance(self.model._meta.pk, IntegerField) and id_in(object_id) is None:  # type: ignore[attr-defined]
            return None
        return super().get_object(request, object_id, from_field)  # type: ignore[misc]


class ReadOnlyAdmin(StrictList, ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """Rows that people can look at and not edit. Lists never count their table, which may hold millions of rows.

    `page_template` shows one row, as `original` in a context to which `page` adds; without it, rows have no page.
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
    empty = ""
    """Message of an empty list, about the rows that it would show."""
    empty_command = ""
    """Command that fills the list; empty: none does."""
    to_environment = ""
    """Path from a row to its environment: rows of those that are hidden from the person do not exist for them."""
    is_about_all = False
    """Whether rows may be about anything, so that only people see them from whom nothing is hidden."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.filter(visible(hidden_from(request.user), self.to_environment)) if self.to_environment else rows

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        may_view = bool(super().has_view_permission(request, obj))
        return may_view and not (self.is_about_all and hides_anything(hidden_from(request.user)))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, object_id) if self.page_template else None
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[no-any-return]
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": str(row),
            "original": row,
            "is_fullwidth": "1",
            **self.page(request, row),
        }
        return TemplateResponse(request, self.page_template, context)

    def page(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the template variables that the page of `row` adds."""
        return {}


class ChipFilter(admin.SimpleListFilter):
    """A filter that is shown above its list as a chip; the address holds its state."""

    template = "environments/filter.html"

    def with_id(self, queryset: QuerySet[Any], column: str) -> QuerySet[Any]:
        """Return the rows that refer to the chosen id, all if none is chosen, and none if there is no such id."""
        if not (chosen := self.value()):
            return queryset
        pk = id_in(chosen)
        return queryset.none() if pk is None else queryset.filter(**{column: pk})


class EnvironmentFilter(ChipFilter):
    title = "environment"
    parameter_name = "environment"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        rows = Environment.objects.filter(visible(hidden_from(request.user), "pk"))
        return [(str(pk), name) for pk, name in rows.values_list("pk", "name")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return self.with_id(queryset, "environment")


def _is_number(model: type[Model], name: str) -> bool:
    """Return whether a parameter of a list is its page, or a lookup of a number, such as `groups__id__exact`."""
    options: Any = model._meta
    field: Any = None
    for part in name.split("__"):
        try:
            field = options.pk if part == "pk" else options.get_field(part)
        except FieldDoesNotExist:
            break
        options = field.related_model._meta if field.is_relation else options
    is_number = isinstance(field, IntegerField) or (field is not None and field.is_relation)
    return name == PAGE_VAR or (is_number and not name.endswith("__isnull"))


def author_of(request: HttpRequest) -> str:
    """Return the name of the person who makes a change, as revisions store it."""
    name = request.user.get_username()
    return "operator" if name == OPERATOR else name


def note(user: int | None, row: Model, words: str, kind: int = CHANGE) -> None:
    """Write into Django's own log what was done to a row that has no revisions. `kind`: CHANGE or DELETION."""
    LogEntry.objects.create(
        user_id=cast(int, user),  # there is one: pages ask for a permission first
        content_type=ContentType.objects.get_for_model(row),
        object_id=str(row.pk),
        object_repr=str(row)[:200],
        action_flag=kind,
        change_message=words,
    )
