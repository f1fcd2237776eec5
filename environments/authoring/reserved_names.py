"""Names that have a meaning: those that no environment may have, because environment names are
first segments of URL paths, and the attributes of a class that a server reads.
"""

PAGES = frozenset(
    (
        "admin", "api", "static", "media", "events", "ws", "accounts", "environments", "episodes", "runs", "compare",
        "play", "tasks", "conversations", "rollout", "rollouts", "leaderboard", "docs", "operations", "suites",
    )
)  # fmt: skip
"""First path segments of the pages. All other paths belong to the protocol, and so does POST
/tasks."""

PROTOCOL_WORDS = frozenset(
    (
        "health", "version", "list_environments", "tools", "splits", "tasks", "num_tasks", "task", "task_range",
        "get_task", "get_task_range", "create_session", "create", "ping", "delete", "delete_session", "prompt",
        "messages", "task_tools", "call", "score_group", "openapi.json", "schema.json",
    )
)  # fmt: skip

OTHER_PROTOCOLS = frozenset(("mcp", "v1"))
"""First path segments of the other protocols for agents: MCP, and the data API of the commercial
platform."""

FOR_OPERATORS = frozenset(("ready", "metrics"))
"""What probes and Prometheus read; see `orsweb/operations/endpoints.py`."""

RESERVED_NAMES = PAGES | PROTOCOL_WORDS | OTHER_PROTOCOLS | FOR_OPERATORS

SETTINGS = frozenset(
    (
        "convention", "default_return", "isolation", "own_thread", "reward_range", "sessions_at_once",
        "success_threshold",
    )
)  # fmt: skip
"""Attributes of every class that an operator may give as arguments."""

CONTRACT = frozenset(
    (
        "convention", "default_return", "exploits", "fixed_tasks", "get_messages", "get_prompt", "get_task",
        "get_task_range", "hand_controls", "hidden_fields", "isolation", "list_splits", "list_task_tools", "list_tasks",
        "list_tools", "num_tasks", "oracle", "own_thread", "python", "recoverable_errors", "replayable",
        "required_secrets", "resources", "revision_packages", "reward_range", "score_group", "sessions_at_once",
        "setup", "snapshot_every", "success_threshold", "task_schema", "teardown", "title_field", "toolsets",
        "unavailable",
    )
)  # fmt: skip
"""Attributes of a class that a server or `check_environment` reads, but for `name`, `save` and
`load`: other short words are one edit away from these."""
