"""Template tags for the frame of all pages: the pages of the left rail, and the current one.

Used by `templates/base.html`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django import template
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from environments import __version__
from environments.features import MenuPage, PageLink, PaletteAction, features, url_of_page
from orsweb.accounts.page_rules import may_open, permission_for
from orsweb.pages.admin_look import menu

register = template.Library()


RAIL = (
    MenuPage(
        "overview",
        "Overview",
        "o",
        "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z",
        is_on_phones=True,
    ),
    MenuPage(
        "environments",
        "Environments",
        "v",
        "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
        ("tasks",),
    ),
    MenuPage(
        "episodes",
        "Episodes",
        "e",
        "M4 6h16M4 12h16M4 18h10M19 16v5M17 18.5h4",
        is_on_phones=True,
    ),
    MenuPage("runs", "Runs", "r", "M4 4v16h16M7 15l4-5 3 3 5-7", is_on_phones=True),
    MenuPage(
        "groups",
        "Groups",
        "u",
        "M7 5a2 2 0 1 0 0 4 2 2 0 0 0 0-4zM17 5a2 2 0 1 0 0 4 2 2 0 0 0 0-4z"
        "M7 15a2 2 0 1 0 0 4 2 2 0 0 0 0-4zM17 15a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
    ),
    MenuPage("compare", "Compare", "c", "M4 5h6v14H4zM14 5h6v14h-6zM10 12h4"),
    MenuPage("api", "API", "i", "M8 6l-5 6 5 6M16 6l5 6-5 6M14 4l-4 16", is_foot=True),
    MenuPage(
        "admin:index",
        "Admin",
        "a",
        "M4 7h8M18 7h2M4 17h2M12 17h8M15 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM9 20a3 3 0 1 0 0-6 3 3 0 "
        "0 0 0 6z",
    ),
)

ACTIONS = (
    PaletteAction("Connect an agent", "overview", rest="#connect"),
    PaletteAction("Curves", "curves", kind="page"),
    PaletteAction("Conversations", "rollouts", kind="page"),
    PaletteAction(
        "Quarantine failing tasks",
        "admin:environments_task_bulk",
        ("quarantine",),
        "?bucket=failing&scope=all&ask=1&reason=The%20environment%20fails",
        "environments.change_task",
    ),
    PaletteAction("Load demo data", "load_demo"),
    PaletteAction("Operations", "operations", kind="page"),
    PaletteAction(
        "Create API key", "admin:environments_apikey_add", permission="environments.add_apikey"
    ),
    PaletteAction(
        "Delete episodes",
        "admin:episodes_episode_remove",
        permission="episodes.delete_episode",
    ),
)


@cache
def _menu() -> tuple[MenuPage, ...]:
    """Return the pages of the rail in order, with those of features."""
    pages = list(RAIL)
    for page in (page for feature in features() for page in feature.menu):
        place = next(number for number, other in enumerate(pages, 1) if other.name == page.after)
        pages.insert(place, page)
    return tuple(pages)


@register.simple_tag(takes_context=True)
def is_outsider(context: dict[str, Any]) -> bool:
    """Return whether the visitor is a guest or not logged in, so that pages show no links."""
    seat = context.get("seat")
    if seat is not None:
        return seat.guest is not None
    user = _user(context)
    return user is not None and not user.is_authenticated


@register.simple_tag(takes_context=True)
def rail(context: dict[str, Any]) -> SafeString:
    """Return the rail with the pages that the visitor may see; none for outsiders."""
    if is_outsider(context):
        return _rail((), "", is_outsider=True)
    request, pages = context.get("request"), _open_pages(context)
    path = request.path if request else ""
    urls = [_page_url(page.name) for page in pages if _is_current(page, path)]
    return _rail(pages, max(urls, key=len, default=""), is_outsider=False)


@cache
def _rail(pages: tuple[MenuPage, ...], current: str, *, is_outsider: bool) -> SafeString:
    """Return the rail as HTML, rendered once for all who may see the same: rendering it took a
    tenth of a page's time.

    `current`: the URL of the page that contains the current path.
    """
    urls = [_page_url(page.name) for page in pages]
    links = [(page, url, url == current) for page, url in zip(pages, urls, strict=True)]
    context = {"pages": links, "is_outsider": is_outsider, "version": __version__}
    return render_to_string("orsweb/navigation.html", context)


@register.simple_tag(takes_context=True)
def keyboard_shortcuts(context: dict[str, Any]) -> SafeString:
    """Return the list of keyboard shortcuts that work on every page, with those of the rail's
    pages."""
    return _keyboard_shortcuts(() if is_outsider(context) else _open_pages(context))


@cache
def _keyboard_shortcuts(pages: tuple[MenuPage, ...]) -> SafeString:
    return render_to_string("orsweb/keyboard_shortcuts.html", {"pages": pages})


@register.simple_tag(takes_context=True)
def palette_actions(context: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the labels, addresses and kinds of what the palette offers the visitor to do, and of
    pages that the rail lacks."""
    user = _user(context)
    return [
        (action.label, url + action.rest, action.kind)
        for action in (*ACTIONS, *(each for feature in features() for each in feature.actions))
        if (url := _page_url(action.name, *action.arguments))
        and _may_open(context, action.name)
        and (user is None or not action.permission or user.has_perm(action.permission))
    ]


@register.simple_tag(takes_context=True)
def admin_pages(context: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the titles and addresses of the lists of the admin that the visitor may open."""
    request, user = context.get("request"), _user(context)
    if request is None or user is None or not _may_open(context, "admin:index"):
        return []
    return [
        (item["title"], str(item["link"]))
        for group in menu()
        for item in group["items"]
        if str(item["link"]).startswith(_page_url("admin:index")) and item["permission"](request)
    ]


@register.simple_tag(takes_context=True)
def url_if_any(context: dict[str, Any], name: str, *args: object) -> str:
    """Return the URL with this name; empty if there is no such page or the visitor may not open
    it."""
    return url_of_page(name, *args) if _may_open(context, name) else ""


@register.simple_tag(takes_context=True)
def environment_pages(context: dict[str, Any], environment: str) -> list[tuple[PageLink, str]]:
    """Return the pages of features about the environment that the visitor may open, with their
    addresses."""
    links = [link for feature in features() for link in feature.environment_pages]
    return _links(context, links, environment)


@register.simple_tag(takes_context=True)
def lists_of_features(context: dict[str, Any]) -> list[tuple[PageLink, str]]:
    """Return the lists of features that the visitor may open, with their addresses."""
    return _links(context, [link for feature in features() for link in feature.lists])


def _links(
    context: dict[str, Any], links: list[PageLink], *args: object
) -> list[tuple[PageLink, str]]:
    return [
        (link, url_of_page(link.name, *args)) for link in links if _may_open(context, link.name)
    ]


def _open_pages(context: dict[str, Any]) -> tuple[MenuPage, ...]:
    """Return the pages of the rail that the visitor may see. On a bare page, all of them."""
    return tuple(page for page in _menu() if _may_open(context, page.name) and _page_url(page.name))


def _may_open(context: dict[str, Any], name: str) -> bool:
    user = _user(context)
    return user is None or user.is_superuser or may_open(user, permission_for(name))


def _user(context: dict[str, Any]) -> Any:
    """Return the visitor; None on a bare page, as looking them up may be what failed."""
    return None if context.get("is_bare") else getattr(context.get("request"), "user", None)


@cache
def _page_url(name: str, *arguments: str) -> str:
    return url_of_page(name, *arguments)


def _is_current(page: MenuPage, path: str) -> bool:
    url, root = _page_url(page.name), _page_url("overview")
    if url == root:
        return path == root
    return path.startswith((url, *(f"{root}{section}/" for section in page.sections)))
