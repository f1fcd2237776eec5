"""The two unmodified clients from PyPI, each with the settings that a user needs to reach a local
server."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import pytest
from openreward.client import OpenReward
from ors.client import ORS

from tests.server import LiveServer


class Client:
    """A client of one server. Environments and sessions are the SDK's own objects, so they are untyped here."""

    user_agent: str
    _api: Any

    def environment(self, name: str) -> Any:
        return self._api.environments.get(name)

    def secrets(self, values: Mapping[str, str]) -> Any:
        """Return `values` as this client's `session(secrets=…)` takes them."""
        return dict(values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._api.close()


class OrsClient(Client):
    user_agent = "ors-sdk/0.1.0"

    def __init__(self, server: LiveServer, api_key: str | None = None, url: str = "") -> None:
        self._api = ORS(base_url=url or server.url, api_key=api_key)


class OpenRewardClient(Client):
    user_agent = "openreward-sdk/0.1.167"
    _making = threading.Lock()
    """Held while variables are set for a client: tests play with several in threads."""

    def __init__(self, server: LiveServer, api_key: str | None = None, url: str = "") -> None:
        urls = {"OPENREWARD_SESSION_URL": url or server.url, "OPENREWARD_API_URL": server.url}
        with self._making, pytest.MonkeyPatch.context() as patch:
            for name, value in {**urls, "OPENREWARD_DISABLE_UPDATE_CHECK": "1"}.items():
                patch.setenv(name, value)
            self._api = OpenReward(api_key=api_key, base_url=server.url)
            self._api.environments  # reads them too  # noqa: B018

    def variant(self, name: str, variant: str) -> Any:
        """Return the environment; `variant` goes into the paths, `name` into X-Deployment."""
        return self._api.environments.get(name, variant=variant)

    def secrets(self, values: Mapping[str, str]) -> Any:
        return {name: (value, ["example.org"]) for name, value in values.items()}
