"""URLs of suites."""

from __future__ import annotations

from django.urls import path

from episodes.suites.api import SuitesView, SuiteView
from episodes.suites.form import suite_edit, suite_new
from episodes.suites.pages import suite, suite_compare, suites

pages = [
    path("suites/", suites, name="suites"),
    path("suites/new/", suite_new, name="suite_new"),
    path("suites/<str:name>/", suite, name="suite"),
    path("suites/<str:name>/edit/", suite_edit, name="suite_edit"),
    path("suites/<str:name>/v<int:version_number>/", suite, name="suite_version"),
    path("suites/<str:name>/v<int:version_number>/compare/", suite_compare, name="suite_compare"),
]
api = [
    path("suites", SuitesView.as_view(), name="api-suites"),
    path("suites/<str:name>", SuiteView.as_view(), name="api-suite"),
]
