"""Lists of the admin that refuse what they cannot use of their address. Django leaves it out, and
shows every row."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.options import IS_FACETS_VAR, IncorrectLookupParameters, ShowFacets
from django.contrib.admin.views.main import ALL_VAR, ORDER_VAR, PAGE_VAR, SEARCH_VAR
from django.core.exceptions import BadRequest, FieldDoesNotExist, ValidationError
from django.db.models import BooleanField, IntegerField, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.text import smart_split, unescape_string_literal
from unfold.views import ChangeList

from environments.database.folding import holding
from environments.database.storable import id_in
from environments.errors import shorten
from environments.filtering.addresses import id_asked, refuse_doubles
from environments.filtering.parameters import BadFilter, unknown_name

BOOLEANS = ("1", "0", "True", "False")
"""What Django's filters write for yes and no."""


class StrictList:
    """Mixin of a ModelAdmin whose list refuses parameters that it does not have, and values that
    none can have.

    Its search does not depend on case or accents, where Django's does in each database in its own
    way.
    """

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return StrictChangeList

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        try:
            return super().get_changelist_instance(request)  # type: ignore[misc]  # of ModelAdmin
        except IncorrectLookupParameters as error:
            query = shorten(request.GET.urlencode(), 200)
            sentences = [f"This list has no filter like {query!r}."]
            reason = error.args[0] if error.args else None
            if isinstance(reason, ValidationError):
                sentences += reason.messages
            elif isinstance(reason, ValueError):
                sentences.append(str(reason))
            sentences.append("Open it without, and choose its filters there.")
            raise BadRequest(" ".join(sentences)) from error

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the rows that have each word of a search in one of the columns, in whatever case
        and accents."""
        columns = self.get_search_fields(request)  # type: ignore[attr-defined]  # of ModelAdmin
        for word in smart_split(search_term) if columns else ():
            is_quoted = len(word) > 1 and word[0] in "\"'" and word[0] == word[-1]
            text = unescape_string_literal(word) if is_quoted else word
            queryset = queryset.filter(holding(queryset, text, columns))
        return queryset, False

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        """Return the row of that number. Django reads others, such as 1_0, as if they were numbers,
        too."""
        if isinstance(self.model._meta.pk, IntegerField) and id_in(object_id) is None:  # type: ignore[attr-defined]
            return None
        return super().get_object(request, object_id, from_field)  # type: ignore[misc]

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        id_asked(request, PAGE_VAR)
        answer: HttpResponse = super().history_view(request, object_id, extra_context)  # type: ignore[misc]
        return answer


class StrictChangeList(ChangeList):  # type: ignore[misc]  # unfold has no types
    def get_filters(self, request: HttpRequest) -> Any:
        """Check the address before Django reads it. A `ChipFilter` checks its value itself."""
        chips = [item.parameter_name for item in self.list_filter if not isinstance(item, str)]
        fields = [item for item in self.list_filter if isinstance(item, str)]
        others = self._other_parameters()
        names = [*chips, *fields, *others]
        for name in request.GET:
            if name not in names and _field_of(self.model, name)[0] is None:
                raise unknown_name(name, request.GET[name], names, "filter")
        refuse_doubles(request)
        for name, value in request.GET.dict().items():
            if name == PAGE_VAR and value and not id_in(value):
                raise BadFilter(name, value, "it has to be the number of a page, such as 2")
            elif name in (ALL_VAR, IS_FACETS_VAR) and value not in ("", "1", "True"):
                raise BadFilter(name, value, "allowed are 1, True")
            elif name == ORDER_VAR and value:
                columns = self.sortable_columns()
                if any(part.removeprefix("-") not in columns for part in value.split(".")):
                    choices = (
                        f"allowed are {', '.join(columns)}, with - before it for the reverse and "
                        ". between several"
                    )
                    raise BadFilter(name, value, choices)
            elif name not in (*chips, *others):
                self._check_lookup(request, name, value)
        return super().get_filters(request)

    def get_results(self, request: HttpRequest) -> None:
        try:
            super().get_results(request)
            is_past = self.page_num > 1 and (
                self.page_num > self.paginator.num_pages or not self.result_list
            )
        except IncorrectLookupParameters:
            is_past = True
        if is_past:
            raise BadFilter(PAGE_VAR, str(self.page_num), "the list ends before this page")

    def sortable_columns(self) -> list[str]:
        """Return the numbers of the columns by which the list can be sorted, as the parameter `o`
        has them."""
        return [
            str(number)
            for number, name in enumerate(self.list_display)
            if name in self.sortable_by and self.get_ordering_field(name)
        ]

    def _other_parameters(self) -> list[str]:
        """Return the names of the parameters that are no filters."""
        parts = {
            SEARCH_VAR: self.search_fields,
            ORDER_VAR: self.sortable_columns(),
            PAGE_VAR: True,
            ALL_VAR: self.model_admin.show_full_result_count,
            IS_FACETS_VAR: self.model_admin.show_facets is ShowFacets.ALLOW,
        }
        return [name for name, has_it in parts.items() if has_it]

    def _check_lookup(self, request: HttpRequest, name: str, value: str) -> None:
        """Refuse a value that no row can have in the field of a lookup, such as `state__exact` or
        `groups__id__in`."""
        field, lookup = _field_of(self.model, name)
        if lookup.endswith("regex"):
            raise BadFilter(
                name, value, "lists are not searched by regular expressions; q searches by words"
            )
        values = value.split(",") if lookup == "in" else [value]
        is_same = lookup in ("", "exact", "in")
        choices: list[str] = []
        if lookup == "isnull" or (is_same and isinstance(field, BooleanField)):
            choices = list(BOOLEANS)
        elif is_same:
            choices = [str(key) for key, _ in getattr(field, "flatchoices", ())]
        if choices and not set(choices).issuperset(values):
            raise BadFilter(name, value, f"allowed are {', '.join(choices)}")
        is_number = (isinstance(field, IntegerField) or field.is_relation) and lookup != "isnull"
        if is_number and value and None in map(id_in, values):
            raise BadFilter(name, value, "it has to be a number, such as 12")
        is_row = field.is_relation or field.primary_key
        model = field.related_model if field.is_relation else field.model
        rows_admin = self.model_admin.admin_site._registry.get(model)
        if not (value and is_number and is_same and is_row and rows_admin):
            return
        if rows_admin is not self.model_admin:
            rows = rows_admin.get_queryset(request).filter(pk__in=values)
            if rows.count() < len(set(values)):
                noun = rows_admin.opts.verbose_name
                raise BadFilter(name, value, f"there is no {noun} of that number")


def _field_of(model: type[Model], name: str) -> tuple[Any, str]:
    """Return the field that a lookup such as `groups__id__in` is about (None: it is no lookup), and
    the rest of it."""
    options: Any = model._meta
    field, parts = None, name.split("__")
    while parts and options is not None:
        try:
            field = options.pk if parts[0] == "pk" else options.get_field(parts[0])
        except FieldDoesNotExist:
            break
        options = field.related_model._meta if field.is_relation and field.related_model else None
        del parts[0]
    return field, "__".join(parts)
