"""What suites add to the site."""

from environments.access.permissions import PUBLISH_SUITES
from environments.features import AdminLink, Feature, MenuPage, PageLink, PaletteAction

FEATURE = Feature(
    urls="episodes.suites.urls",
    permissions=dict.fromkeys(("suite_new", "suite_edit"), PUBLISH_SUITES),
    menu=[
        MenuPage(
            "suites",
            "Suites",
            "s",
            "M4 6h10M4 12h10M4 18h6M18 4v9M15.5 10.5L18 13l2.5-2.5M15 17l2 2 4-4",
            after="groups",
        )
    ],
    lists=[PageLink("Suites", "suites", "Benchmarks over several environments")],
    actions=[PaletteAction("New suite", "suite_new")],
    admin="episodes.suites.admin",
    admin_pages=[AdminLink("Suites", "admin:episodes_suite_changelist")],
    episode_filters="episodes.suites.episode_filter.EPISODE_FILTERS",
    named_places="episodes.suites.named_places.NAMED_PLACES",
    quotation="episodes.suites.versions.quoted_in",
)
