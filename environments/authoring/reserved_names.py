"""Names that no environment may have, because environment names are first segments of URL paths."""

PAGES = frozenset(
    (
        "admin", "api", "static", "media", "events", "ws", "accounts", "environments", "episodes", "runs", "compare",
        "play", "tasks", "rollout", "rollouts", "leaderboard", "docs", "operations", "suites",
    )
)  # fmt: skip
"""First path segments of the pages. All other paths belong to the protocol, and so does POST /tasks."""

PROTOCOL_WORDS = frozenset(
    (
        "health", "version", "list_environments", "tools", "splits", "tasks", "num_tasks", "task", "task_range",
        "get_task", "get_task_range", "create_session", "create", "ping", "delete", "delete_session", "prompt",
        "messages", "task_tools", "call", "score_group", "openapi.json", "schema.json",
    )
)  # fmt: skip

OTHER_PROTOCOLS = frozenset(("mcp", "v1"))
"""First path segments of the other protocols for agents: MCP, and the data API of the commercial platform."""

FOR_OPERATORS = frozenset(("ready", "metrics"))
"""What probes and Prometheus read; see `orsweb/operations/endpoints.py`."""

RESERVED_NAMES = PAGES | PROTOCOL_WORDS | OTHER_PROTOCOLS | FOR_OPERATORS
