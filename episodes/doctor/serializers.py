"""Serializers of the doctor's reports. `api/serializers.py` has the conventions."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from episodes.doctor.findings import RESULTS
from episodes.figures.serializers import DefinitionSerializer


class EvidenceSerializer(s.Serializer[Any]):
    title = s.CharField(source="label")
    address = s.CharField(help_text="Path and query string of a page that shows it")


class FindingSerializer(s.Serializer[Any]):
    check = s.CharField(help_text="Name of the check")
    title = s.CharField(help_text="What it looks for")
    result = s.ChoiceField(RESULTS)
    sentence = s.CharField()
    run = s.CharField(
        help_text="Name of the run that it is about; empty unless the check examines each run"
    )
    step = s.IntegerField(
        allow_null=True, help_text="Training step of that run at which it begins; null if unknown"
    )
    thresholds = s.DictField(
        child=s.FloatField(), help_text="The thresholds that decided it, by name"
    )
    evidence = EvidenceSerializer(many=True)


class DoctorSerializer(s.Serializer[Any]):
    environment = s.CharField()
    split = s.CharField(allow_null=True)
    run = s.CharField(allow_null=True)
    definition = DefinitionSerializer()
    summary = s.CharField(help_text="What the findings say together")
    attempts = s.IntegerField(
        help_text="Newest attempts that were read, by checks that do not compare times"
    )
    is_bounded = s.BooleanField(
        help_text="Whether there may be older episodes than the newest, which were read"
    )
    findings = FindingSerializer(many=True, help_text="Problems first")
