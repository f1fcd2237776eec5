"""The addresses that probes and Prometheus read. `/health` is the protocol's own."""

from __future__ import annotations

from django.urls import path

from orsweb.operations.endpoints import Metrics, Ready

urlpatterns = [path("ready", Ready.as_view()), path("metrics", Metrics.as_view())]
