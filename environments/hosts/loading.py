"""What this server serves: the registry of all environments; `every_host.py` plays them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from environments.authoring.hosted_environment import HostedEnvironment
from environments.authoring.registry import Registry, load_class, refusing_servers
from environments.errors import Unhostable
from environments.hosts.interpreter import described_class
from environments.hosts.remote_environment import HostedRemote
from environments.hosts.remote_url import is_remote, parse
from environments.hosts.repositories import repository_in, specifications_in
from environments.hosts.repository_python import python_of
from environments.limits import LoadingSettings


def load(specifications: Iterable[str], settings: LoadingSettings | None = None) -> Registry:
    """Return the registry of what `specifications` name: `module:Class`, `module:Class@python`,
    repositories or URLs.

    Each may have `name=` before it. Classes are imported, by the interpreter `python` if one is
    named; remote environments are not contacted.

    Raises: Unhostable with one sentence that says what to change.
    """
    settings = settings or LoadingSettings()
    environments: list[HostedEnvironment] = []
    for specification in specifications:
        environments += _load(specification.strip(), settings)
    registry = Registry(environments)
    if registry.find(first := settings.path_prefix[1:].partition("/")[0]):
        raise Unhostable(
            f"ORSWEB_PATH_PREFIX={settings.path_prefix} begins with the name of the environment "
            f"{first!r}; serve that as other_name=module:Class, or use another path."
        )
    return registry


def _load(specification: str, settings: LoadingSettings) -> Sequence[HostedEnvironment]:
    """Return what a specification names: several environments if it is a directory."""
    if is_remote(specification):
        return [HostedRemote(parse(specification, settings.keys))]
    seconds = settings.import_seconds
    target, at_sign, python = specification.partition("@")
    if repository := repository_in(target):
        if not python and settings.interpreters:
            python = python_of(repository, settings.interpreters)
        targets = specifications_in(target, repository)
        return [described_class(each, python, seconds) for each in targets]
    if at_sign:
        return [described_class(target, python, seconds)]
    with refusing_servers():
        hosted_class = load_class(specification)
    if hosted_class.python:
        return [described_class(specification, hosted_class.python, seconds)]
    return [hosted_class]
