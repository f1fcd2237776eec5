"""The paths under /v1/."""

from __future__ import annotations

from django.urls import path

from episodes.platform_api import environments, rollouts, runs
from episodes.platform_api.platform_view import CurrentNamespace, UnknownAddress

OF_ENVIRONMENT = {
    "variants": environments.Variants,
    "required-secrets": environments.RequiredSecrets,
    "task-difficulty": environments.TaskDifficulty,
}

urlpatterns = [
    path("v1/rollouts", rollouts.RolloutsView.as_view()),
    path("v1/namespace/current", CurrentNamespace.as_view()),
    path("v1/environments", environments.PlatformEnvironments.as_view()),
    *(
        path(f"v1/environments/<str:owner_name>/<str:name>/{word}", view.as_view())
        for word, view in OF_ENVIRONMENT.items()
    ),
    # clients without an owner send an empty one, and repeated slashes count as one
    *(
        path(f"v1/environments/<str:name>/{word}", view.as_view())
        for word, view in OF_ENVIRONMENT.items()
    ),
    path("v1/environments/<str:owner_name>/<str:name>", environments.PlatformEnvironment.as_view()),
    path("v1/environments/<str:name>", environments.PlatformEnvironment.as_view()),
    path("v1/runs", runs.RunListing.as_view()),
    path("v1/runs/<str:run>", runs.RunDescription.as_view()),
    path("v1/runs/<str:run>/rollouts", runs.RunRollouts.as_view()),
    path("v1/<path:rest>", UnknownAddress.as_view()),
]
