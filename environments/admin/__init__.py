"""Admin of what can be played: environments, splits and tasks."""

from environments.admin.activity import ActivityAdmin
from environments.admin.api_key import ApiKeyAdmin
from environments.admin.base import ChipFilter, EnvironmentFilter, ReadOnlyAdmin, RowFilter
from environments.admin.conflict import ConflictAdmin
from environments.admin.environment import EnvironmentAdmin, hosted_tools, summary_of
from environments.admin.security_log import SecurityEventAdmin
from environments.admin.split import SplitAdmin
from environments.admin.strict_list import StrictList
from environments.admin.task import TaskAdmin

__all__ = [
    "ActivityAdmin",
    "ApiKeyAdmin",
    "ChipFilter",
    "ConflictAdmin",
    "EnvironmentAdmin",
    "EnvironmentFilter",
    "ReadOnlyAdmin",
    "RowFilter",
    "SecurityEventAdmin",
    "SplitAdmin",
    "StrictList",
    "TaskAdmin",
    "hosted_tools",
    "summary_of",
]
