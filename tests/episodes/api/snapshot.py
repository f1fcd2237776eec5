"""Write the snapshot of the OpenAPI document: python -m tests.episodes.api.snapshot"""

from __future__ import annotations

import os

import django


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orsweb.settings")
    django.setup()
    from django.test import RequestFactory

    from episodes.api.openapi import DocumentView
    from tests.episodes.api.test_openapi import SNAPSHOT

    SNAPSHOT.write_bytes(DocumentView.as_view()(RequestFactory().get("/api/schema")).content)


if __name__ == "__main__":
    main()
