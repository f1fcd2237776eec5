"""Saved views: the address of a page with its filters under a name, for everybody who may see
pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import parse_qsl, urlencode

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from environments.access.privacy import viewer_of
from environments.filtering.addresses import takes
from environments.filtering.parameters import BadFilter
from environments.models import Viewer
from episodes.models import SavedView


@dataclass(frozen=True)
class ViewPage:
    """A page of which views can be saved."""

    name: str
    """Of the page in urls, and of its views in SavedView."""
    address: Callable[[str, Viewer], str]
    """Returns a query string as it is saved. Raises: BadFilter, ValueError."""
    is_visible: Callable[[str, Viewer], bool]
    """Whether nothing that the query string names is hidden from the viewer. Raises: BadFilter."""

    BY_NAME: ClassVar[dict[str, ViewPage]] = {}

    def __post_init__(self) -> None:
        self.BY_NAME[self.name] = self

    def views(self, viewer: Viewer) -> list[SavedView]:
        """Return the saved views. Those whose filter names what is hidden from the viewer do not
        exist for them.

        A few queries for each view if something is hidden, otherwise one.
        """
        views = list(SavedView.objects.filter(page=self.name))
        if not viewer.hides_anything:
            return views
        visible = []
        for view in views:
            try:
                if self.is_visible(view.query, viewer):
                    visible.append(view)
            except BadFilter:  # a parameter that an earlier version had
                continue
        return visible


@require_POST
@takes()
def save_view(request: HttpRequest) -> HttpResponse:
    """Save `query` of `page` as a view named `name`, and replace a view of that name. Raises:
    BadRequest."""
    name, query = request.POST.get("name", "").strip(), request.POST.get("query", "")
    page = ViewPage.BY_NAME.get(request.POST.get("page", "episodes"))
    if not name or len(name) > 100 or "\0" in name:
        raise BadRequest(
            f"A saved view needs a name of 1 to 100 characters; this one has {len(name)}."
        )
    if page is None:
        raise BadRequest(f"page is one of {', '.join(sorted(ViewPage.BY_NAME))}.")
    try:
        parse_qsl(query, max_num_fields=100)
        address = page.address(query, viewer_of(request.user))
    except (BadFilter, ValueError) as error:
        raise BadRequest(f"This view cannot be saved: {error}") from error
    author = request.user.get_username()[:150]
    SavedView.objects.update_or_create(
        name=name, page=page.name, defaults={"query": address, "author": author}
    )
    return HttpResponseRedirect(f"{reverse(page.name)}?{address}")


@require_POST
@takes()
def delete_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete a saved view and redirect to its page with `query`."""
    viewer, name = viewer_of(request.user), "episodes"
    for page in ViewPage.BY_NAME.values():
        for view in page.views(viewer):
            if view.pk == pk:
                name = page.name
                view.delete()
    query = urlencode(parse_qsl(request.POST.get("query", ""), max_num_fields=None))
    return HttpResponseRedirect(f"{reverse(name)}?{query}")
