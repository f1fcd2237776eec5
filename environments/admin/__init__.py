"""Base classes of the admin, and its pages of keys and of the security log."""

from environments.admin.api_key import ApiKeyAdmin
from environments.admin.base import ChipFilter, EnvironmentFilter, ReadOnlyAdmin, RowFilter
from environments.admin.security_log import SecurityEventAdmin
from environments.admin.strict_list import StrictList

__all__ = [
    "ApiKeyAdmin",
    "ChipFilter",
    "EnvironmentFilter",
    "ReadOnlyAdmin",
    "RowFilter",
    "SecurityEventAdmin",
    "StrictList",
]
