"""The admin of the record. Each module registers its pages."""

from episodes.admin import episodes, incidents, redaction, removal, retention, runs

__all__ = ["episodes", "incidents", "redaction", "removal", "retention", "runs"]
