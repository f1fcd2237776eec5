"""What playing in the browser adds to the site, with invites and studies."""

from environments.access.permissions import (
    FLAG_TASKS,
    INVITE,
    MAKE_STUDIES,
    PLAY,
    WRITE_NOTES,
)
from environments.features import Feature, MenuPage, PaletteAction

PLAYED = (
    "play",
    "player",
    "play_again",
    "play_prompt",
    "play_prompt_image",
    "play_step",
    "play_step_json",
    "play_image",
    "continue",
    "study_home",
    "study_begin",
    "study_next",
)
MAKING = ("study_new", "study_links", "study_revoke", "study_exclude", "study_close")
OPEN = ("invite", "study_return", "leave")
"""Pages of guests, which check who they are."""

FEATURE = Feature(
    urls="episodes.people.urls",
    permissions={
        **dict.fromkeys(PLAYED, PLAY),
        **dict.fromkeys(MAKING, MAKE_STUDIES),
        **dict.fromkeys(("invites", "revoke_invite"), INVITE),
        **dict.fromkeys(OPEN, ""),
        "flag": FLAG_TASKS,
    },
    permissions_to_change={"notes": WRITE_NOTES},
    menu=[MenuPage("play", "Play", "p", "M7 4l12 8-12 8z", after="compare", is_on_phones=True)],
    actions=[
        PaletteAction("New study", "study_new"),
        PaletteAction("Invite people", "invites"),
        PaletteAction("Studies", "studies", kind="page"),
        PaletteAction("People", "people", kind="page"),
    ],
    upkeep="episodes.people.seen_tasks",
)
