"""Admin of what can be played: environments, splits and tasks."""

from environments.admin.base import ChipFilter, EnvironmentFilter, ReadOnlyAdmin
from environments.admin.environment import EnvironmentAdmin, hosted_tools, summary_of
from environments.admin.split import SplitAdmin
from environments.admin.task import TaskAdmin

__all__ = [
    "ChipFilter",
    "EnvironmentAdmin",
    "EnvironmentFilter",
    "ReadOnlyAdmin",
    "SplitAdmin",
    "TaskAdmin",
    "hosted_tools",
    "summary_of",
]
