"""The setting `UNFOLD`: the colours of the admin and the links of its sidebar."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.templatetags.static import static
from django.urls import reverse_lazy

from environments.features import features


def sidebar_page(title: str, icon: str, name: str) -> dict[str, Any]:
    """Return a link of the sidebar. Only people who may view the rows of a list get its link."""
    link = {"title": title, "icon": icon, "link": reverse_lazy(name)}
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
def sidebar() -> list[dict[str, Any]]:
    """Return the groups of links of the sidebar, with those of features."""
    return [
        {
            "items": [
                sidebar_page("Operations", "monitor_heart", "operations")
                | {"permission": lambda request: request.user.has_perm("episodes.view_operations")},
            ]
        },
        {
            "title": "Episodes and runs",
            "items": [
                sidebar_page("Episodes", "timeline", "admin:episodes_episode_changelist"),
                sidebar_page("Redactions", "ink_eraser", "admin:episodes_redaction_changelist"),
                sidebar_page("Runs", "stacks", "admin:episodes_run_changelist"),
                *(sidebar_page(*link) for feature in features() for link in feature.admin_pages),
                sidebar_page("Incidents", "warning", "admin:episodes_incident_changelist"),
                sidebar_page("Retention", "auto_delete", "admin:episodes_retention_changelist"),
                sidebar_page("Removals", "delete_history", "admin:episodes_removal_changelist"),
            ],
        },
        {
            "title": "Environments and tasks",
            "items": [
                sidebar_page(
                    "Environments", "deployed_code", "admin:environments_environment_changelist"
                ),
                sidebar_page(
                    "Splits", "format_list_numbered", "admin:environments_split_changelist"
                ),
                sidebar_page("Tasks", "checklist", "admin:environments_task_changelist"),
                sidebar_page("Activity", "history", "admin:environments_curationaction_changelist")
                | {"permission": lambda request: request.user.has_perm("environments.view_task")},
                sidebar_page(
                    "Conflicts", "call_split", "admin:environments_syncconflict_changelist"
                )
                | {"permission": lambda request: request.user.has_perm("environments.view_task")},
            ],
        },
        {
            "title": "Access",
            "items": [
                sidebar_page("API keys", "key", "admin:environments_apikey_changelist"),
                sidebar_page(
                    "Security log", "policy", "admin:environments_securityevent_changelist"
                ),
                sidebar_page("Users", "person", "admin:auth_user_changelist"),
                sidebar_page("Groups", "group", "admin:auth_group_changelist"),
            ],
        },
    ]


UNFOLD = {
    "SITE_TITLE": "orsweb",
    "SITE_HEADER": "Admin",
    "SITE_URL": reverse_lazy("overview"),
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("orsweb/icon.svg")}
    ],
    "DASHBOARD_CALLBACK": "environments.curation.admin.index.index",
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "BORDER_RADIUS": "4px",
    "COLORS": {"base": shades_of(255, 0.012), "primary": shades_of(258, 0.15)},
    "STYLES": [
        lambda request: static("orsweb/tokens.css"),
        lambda request: static("orsweb/rail.css"),
        lambda request: static("orsweb/record.css"),
        lambda request: static("orsweb/admin.css"),
    ],
    "SCRIPTS": [
        lambda request: static("orsweb/admin_labels.js"),
        lambda request: static("orsweb/scrolling.js"),
    ],
    "SIDEBAR": {"navigation": lambda request: sidebar()},
}
