"""LocalHost runs classes in this process: that of the server, or of a worker."""

from __future__ import annotations

from collections.abc import Callable

from environments.authoring.hosted_class import HostedClass
from environments.authoring.registry import Registry
from environments.authoring.task_source import ClassTasks
from environments.errors import UnknownEnvironment
from environments.limits import Limits
from environments.runtime.host import PlayedInstance, ignore_loss
from environments.runtime.instance import Instance
from environments.runtime.saving_instance import SavingInstance
from environments.runtime.switch_interval import SwitchInterval
from environments.runtime.threads import ThreadPool
from environments.runtime.usercode import UserCode


class LocalHost:
    """Runs classes in this process."""

    def __init__(self, registry: Registry, pool: ThreadPool, limits: Limits) -> None:
        self._registry, self._pool, self._limits = registry, pool, limits
        self._call_user = UserCode(pool).call
        self.on_loss: Callable[[PlayedInstance, str], None] = ignore_loss

    def instance(self, environment: str) -> Instance:
        hosted_class = self._hosted_class(environment)
        kind = SavingInstance if hosted_class.saves else Instance
        return kind(hosted_class, UserCode(self._pool, hosted_class), self._limits)

    def tasks(self, environment: str) -> ClassTasks:
        return ClassTasks(self._hosted_class(environment), self._call_user)

    async def keep_alive(self) -> None:
        """Shorten the switch interval while the code of classes computes."""
        await SwitchInterval().keep()

    async def close(self) -> None:
        return

    def _hosted_class(self, name: str) -> HostedClass:
        """Raises: UnknownEnvironment, also for an environment that is no class in this process."""
        environment = self._registry.get(name)
        if not isinstance(environment, HostedClass):
            names = [each.name for each in self._registry if isinstance(each, HostedClass)]
            raise UnknownEnvironment(name, names)
        return environment
