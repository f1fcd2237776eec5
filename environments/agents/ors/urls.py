"""The paths of the protocol. Paths of an environment are served with and without its name as first
segment."""

from __future__ import annotations

from django.urls import path

from environments.agents.http.view import ProtocolView
from environments.agents.ors import calls, discovery, documents, sessions

ROOT_PATHS: dict[str, type[ProtocolView]] = {
    "health": discovery.Health,
    "version": discovery.Version,
    "list_environments": discovery.ListEnvironments,
    "create_session": sessions.CreateSessionView,
    "create": sessions.Create,
    "ping": sessions.Ping,
    "delete": sessions.Delete,
    "delete_session": sessions.Delete,
}

ENVIRONMENT_PATHS: dict[str, type[ProtocolView]] = {
    "tools": discovery.Tools,
    "splits": discovery.Splits,
    "tasks": discovery.Tasks,
    "num_tasks": discovery.NumTasksView,
    "task": discovery.GetTaskView,
    "task_range": discovery.TaskRange,
    "get_task": discovery.GetTaskView,
    "get_task_range": discovery.TaskRange,
    "prompt": sessions.Prompt,
    "messages": sessions.Messages,
    "task_tools": sessions.TaskTools,
    "call": calls.CallTool,
    "score_group": calls.ScoreGroupView,
}

DOCUMENT_PATHS: dict[str, type[ProtocolView]] = {
    "openapi.json": documents.OpenApiDocument,
    "schema.json": documents.JsonSchemaDocument,
}


_PATHS = {
    **ROOT_PATHS,
    **ENVIRONMENT_PATHS,
    **{f"<str:env_name>/{word}": view for word, view in ENVIRONMENT_PATHS.items()},
    **DOCUMENT_PATHS,
}
urlpatterns = [path(route, view.as_view()) for route, view in _PATHS.items()]
