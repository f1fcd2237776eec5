"""Paths of the protocol. Environment paths are served with and without the environment's name in front."""

from __future__ import annotations

from django.urls import URLPattern, path

from environments.protocol import calls, catalog, sessions
from environments.protocol.base import ProtocolView

ROOT: dict[str, type[ProtocolView]] = {
    "health": catalog.Health,
    "version": catalog.Version,
    "list_environments": catalog.ListEnvironments,
    "create_session": sessions.CreateSessionView,
    "create": sessions.Create,
    "ping": sessions.Ping,
    "delete": sessions.Delete,
    "delete_session": sessions.Delete,
}

OF_AN_ENVIRONMENT: dict[str, type[ProtocolView]] = {
    "tools": catalog.Tools,
    "splits": catalog.Splits,
    "tasks": catalog.Tasks,
    "num_tasks": catalog.NumTasksView,
    "task": catalog.GetTaskView,
    "task_range": catalog.TaskRange,
    "get_task": catalog.GetTaskView,
    "get_task_range": catalog.TaskRange,
    "prompt": sessions.Prompt,
    "messages": sessions.Messages,
    "task_tools": sessions.TaskTools,
    "call": calls.CallTool,
    "score_group": calls.ScoreGroupView,
}


def _paths() -> list[URLPattern]:
    bare = [path(word, view.as_view()) for word, view in {**ROOT, **OF_AN_ENVIRONMENT}.items()]
    named = [path(f"<str:env_name>/{word}", view.as_view()) for word, view in OF_AN_ENVIRONMENT.items()]
    return [*bare, *named]


urlpatterns = _paths()
