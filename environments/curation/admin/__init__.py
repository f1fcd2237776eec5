"""Admin of environments, splits and tasks, and of what people did to them."""

from environments.curation.admin.activity import ActivityAdmin
from environments.curation.admin.conflict import ConflictAdmin
from environments.curation.admin.environment import EnvironmentAdmin
from environments.curation.admin.split import SplitAdmin
from environments.curation.admin.task import TaskAdmin

__all__ = ["ActivityAdmin", "ConflictAdmin", "EnvironmentAdmin", "SplitAdmin", "TaskAdmin"]
