"""`manage.py runserver`: daphne's command, which reloads on changes, with `serve`'s rules for host
and port."""

from __future__ import annotations

from typing import Any

from daphne.management.commands.runserver import Command as DaphneCommand
from django.conf import settings

from orsweb.management.commands.serve import listen
from orsweb.server import forks, pending_migrations


class Command(DaphneCommand):  # type: ignore[misc]  # untyped package
    default_port = str(settings.ORSWEB_PORT)

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["addrport"] or options["addrport"].isdecimal():  # a port without an address
            is_ipv6 = ":" in settings.ORSWEB_HOST
            setattr(self, "default_addr_ipv6" if is_ipv6 else "default_addr", settings.ORSWEB_HOST)
            options["use_ipv6"] = is_ipv6 or options["use_ipv6"]
        super().handle(*args, **options)

    def run(self, **options: Any) -> None:
        """Check the address and the database before the reloader starts a thread.

        Raises: SystemExit with a sentence that says why.
        """
        try:
            pending_migrations.check_version()
        except pending_migrations.NotMigrated as error:
            raise SystemExit(str(error)) from error
        for listener in listen(self.addr, int(self.port))[0]:
            listener.close()
        settings.ORSWEB_HOST, settings.ORSWEB_PORT = self.addr, int(self.port)
        # or what hosted code forks would have it when this restarts
        forks.keep_all([int(self.port)])
        super().run(**options)
