"""The setting `UNFOLD`: the colours of the admin and the links of its menu."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.urls import reverse_lazy

from environments.features import features


def menu_page(title: str, name: str) -> dict[str, Any]:
    """Return a link of the menu. Only people who may view the rows of a list get its link."""
    link = {"title": title, "link": reverse_lazy(name)}
    if not name.startswith("admin:"):
        return link
    app, model, _ = name.removeprefix("admin:").split("_")
    return link | {"permission": lambda request: request.user.has_perm(f"{app}.view_{model}")}


def shades_of(hue: float, chroma: float) -> dict[str, str]:
    """Return the colour of each shade of a hue, evenly spaced in lightness."""
    light = (98, 96, 91, 84, 74, 66, 48, 41, 31, 22, 16)
    shades = (50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 950)
    return {
        str(shade): f"oklch({share}% {chroma * min(1, (100 - share) / 40):.3f} {hue})"
        for shade, share in zip(shades, light, strict=True)
    }


@cache
def menu() -> list[dict[str, Any]]:
    """Return the groups of links of the menu, with those of features."""
    return [
        {
            "title": "Server",
            "items": [
                menu_page("Operations", "operations")
                | {"permission": lambda request: request.user.has_perm("episodes.view_operations")},
            ],
        },
        {
            "title": "Episodes and runs",
            "items": [
                menu_page("Episodes", "admin:episodes_episode_changelist"),
                menu_page("Redactions", "admin:episodes_redaction_changelist"),
                menu_page("Runs", "admin:episodes_run_changelist"),
                *(menu_page(*link) for feature in features() for link in feature.admin_pages),
                menu_page("Incidents", "admin:episodes_incident_changelist"),
                menu_page("Retention", "admin:episodes_retention_changelist"),
                menu_page("Removals", "admin:episodes_removal_changelist"),
            ],
        },
        {
            "title": "Environments and tasks",
            "items": [
                menu_page("Environments", "admin:environments_environment_changelist"),
                menu_page("Splits", "admin:environments_split_changelist"),
                menu_page("Tasks", "admin:environments_task_changelist"),
                menu_page("Activity", "admin:environments_curationaction_changelist")
                | {"permission": lambda request: request.user.has_perm("environments.view_task")},
                menu_page("Conflicts", "admin:environments_syncconflict_changelist")
                | {"permission": lambda request: request.user.has_perm("environments.view_task")},
            ],
        },
        {
            "title": "Access",
            "items": [
                menu_page("API keys", "admin:environments_apikey_changelist"),
                menu_page("Security log", "admin:environments_securityevent_changelist"),
                menu_page("Users", "admin:auth_user_changelist"),
                menu_page("Groups", "admin:auth_group_changelist"),
            ],
        },
    ]


UNFOLD = {
    "SITE_TITLE": "orsweb",
    "DASHBOARD_CALLBACK": "environments.curation.admin.index.index",
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "BORDER_RADIUS": "4px",
    "COLORS": {"base": shades_of(255, 0.012), "primary": shades_of(258, 0.15)},
    "SIDEBAR": {"navigation": lambda request: menu()},
}
