"""URLs of the reward doctor."""

from __future__ import annotations

from django.urls import path

from episodes.doctor.api import DoctorView
from episodes.doctor.pages import doctor

pages = [path("environments/<str:name>/doctor/", doctor, name="doctor")]
api = [path("environments/<str:name>/doctor", DoctorView.as_view(), name="api-doctor")]
