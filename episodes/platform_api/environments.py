"""The environments that this server hosts, as the platform describes them.

This server has one namespace. A path names an environment as owner/name; any owner means this
server, as in the header X-Deployment.
"""

from __future__ import annotations

from typing import Any, ClassVar

from environments import models
from environments.agents.http.response import Response, json_response
from environments.keys.agent_key import READ
from environments.models.folding import fold
from episodes.platform_api.platform_view import PlatformView
from episodes.uploads.rollout_figures import DifficultyQuery, difficulties


class OfEnvironment(PlatformView):
    """A view of the environment that the path names."""

    http_method_names = ["get"]
    scopes: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        """The environment's name. Raises: UnknownEnvironment, Forbidden."""
        return self.find_environment(self.arguments["name"]).name


class PlatformEnvironments(PlatformView):
    """GET /v1/environments: all hosted environments, by `limit`, `offset`, `owner` and `search`."""

    http_method_names = ["get"]
    scopes = ()

    async def get(self) -> Response:
        names = self.key.among(self.service.registry.names)
        if self.query.get("owner", self.namespace) != self.namespace:
            names = []
        if search := fold(self.query.get("search", "")):
            names = [name for name in names if search in fold(name)]
        page = names[self.page(100)]
        rows = await self.record.read(_rows, page)
        environments = [_described(name, self.namespace, rows.get(name, {})) for name in page]
        return json_response({"environments": environments, "total": len(names)})


class PlatformEnvironment(OfEnvironment):
    """GET /v1/environments/{owner}/{name}: one hosted environment."""

    async def get(self) -> Response:
        name = self.name
        rows = await self.record.read(_rows, [name])
        owner = self.arguments.get("owner_name", self.namespace)
        return json_response(_described(name, owner, rows.get(name, {})))


class Variants(OfEnvironment):
    """GET /v1/environments/{owner}/{name}/variants: the names that may follow an address, which are
    all hosted ones."""

    async def get(self) -> Response:
        names = self.key.among(self.service.registry.names)
        return json_response([{"id": name, "name": name} for name in names])


class RequiredSecrets(OfEnvironment):
    """GET …/required-secrets: the names in the attribute `required_secrets` of the class, if it has
    one."""

    async def get(self) -> Response:
        names = self.find_environment(self.arguments["name"]).declared("required_secrets", ())
        is_list = isinstance(names, list | tuple | set | frozenset)
        return json_response({"secrets": [str(name) for name in names] if is_list else []})


class TaskDifficulty(OfEnvironment):
    """GET …/task-difficulty: rewards and lengths of the rollouts of each task."""

    scopes = (READ,)

    async def get(self) -> Response:
        query = DifficultyQuery(
            environment=self.name,
            viewer=self.key.viewer,
            variant=self.query.get("variant"),
            split=self.query.get("split"),
            model=self.query.get("model_name"),
            min_model_params=self.number("min_model_params"),
            max_model_params=self.number("max_model_params"),
            training_stage=self.query.get("training_stage"),
        )
        return json_response({"tasks": await self.record.read(difficulties, query)})


def _rows(names: list[str]) -> dict[str, dict[str, Any]]:
    rows = models.Environment.objects.filter(name__in=names)
    return {row["name"]: dict(row) for row in rows.values("name", "description", "created")}


def _described(name: str, owner: str, row: dict[str, Any]) -> dict[str, Any]:
    moment = row["created"].isoformat() if row else None
    return {
        "id": name,
        "owner": owner,
        "name": name,
        "description": row.get("description", ""),
        "is_private": True,
        "has_github_connection": False,
        "created_at": moment,
        "updated_at": moment,
    }
