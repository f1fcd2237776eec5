"""Checks whether an environment keeps the contract. Authors run them before serving, and CI on
every change.

The same checks run against a class in this process and against any server that speaks the protocol,
through one interface (`checked_environment.py`). Some checks need a class and are skipped for
servers. `manage.py check_environment` runs them; they need no database.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from environments.checking.check_state import CheckOptions
    from environments.checking.checker import check_class

__all__ = ["CheckOptions", "check_class"]

_PLACES = {"CheckOptions": "check_state", "check_class": "checker"}


def __getattr__(name: str) -> Any:
    """Import what authors use in their tests when it is first used: `fresh_process.py` needs no
    other check."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
