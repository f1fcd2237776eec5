"""Hidden: which members of a task's content its class keeps from agents. Pages ask before they show a task."""

from __future__ import annotations

from environments import wiring


def hidden_fields(environment: str) -> frozenset[str] | None:
    """Names that the class of `environment` declares in `hidden_fields`; None: no class here says what is hidden."""
    service = wiring.current()
    hosted = service.registry.find(environment) if service else None
    return frozenset(getattr(hosted.cls, "hidden_fields", ())) if hosted else None
