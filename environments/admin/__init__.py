"""Admin of what can be played: environments, splits and tasks."""

from environments.admin.base import ChipFilter, EnvironmentFilter, ReadOnlyAdmin
from environments.admin.environment import EnvironmentAdmin, hosted_tools, summary_of
from environments.admin.task import TaskAdmin

__all__ = [
    "ChipFilter",
    "EnvironmentAdmin",
    "EnvironmentFilter",
    "ReadOnlyAdmin",
    "TaskAdmin",
    "hosted_tools",
    "summary_of",
]
