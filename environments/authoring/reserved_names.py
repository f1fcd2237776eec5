"""URL prefixes that no environment may be named after, because environment names live at the URL root."""

PAGES = frozenset(
    (
        "admin", "api", "static", "media", "events", "ws", "accounts", "environments", "episodes", "runs", "compare",
        "play", "tasks", "leaderboard", "docs", "ready", "metrics",
    )
)  # fmt: skip
"""First path segments of the pages; everything else is the protocol's. POST /tasks alone is the protocol's too."""

PROTOCOL_WORDS = frozenset(
    (
        "health", "version", "list_environments", "tools", "splits", "tasks", "num_tasks", "task", "task_range",
        "get_task", "get_task_range", "create_session", "create", "ping", "delete", "delete_session", "prompt",
        "messages", "task_tools", "call", "score_group",
    )
)  # fmt: skip

RESERVED_NAMES = PAGES | PROTOCOL_WORDS
