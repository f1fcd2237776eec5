"""Write the snapshot of the protocol's OpenAPI document: python -m
tests.environments.agents.ors.snapshot"""

from __future__ import annotations

import os

import django
import yaml


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orsweb.settings")
    django.setup()
    from environments.agents.ors import openapi
    from tests.environments.agents.ors.test_openapi import SNAPSHOT

    SNAPSHOT.write_text(
        yaml.safe_dump(openapi.openapi(), sort_keys=False, width=120), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
