"""The command line: `orsweb serve`, `orsweb migrate`, … where it is installed, `python manage.py …`
in a checkout."""

import gc
import os
import re
import sys

from django.core.exceptions import ImproperlyConfigured

from orsweb import hash_seed

_MISSING = re.compile(r"no such (table|column)|(relation|column) .* does not exist")
"""How SQLite and PostgreSQL say that the database has not been migrated."""


def main() -> None:
    # a start creates 300,000 objects that stay; scanning them as often as usual took 8 % of it
    gc.set_threshold(10_000, 20, 50)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orsweb.settings")
    try:
        # plays nothing, and leaves no file behind if it is refused
        if sys.argv[1:2] != ["restore"]:
            hash_seed.ensure()
        _execute()
    except ImproperlyConfigured as error:  # a variable with a wrong value: its sentence says all
        sys.exit(str(error))
    except KeyboardInterrupt:  # while starting or migrating; `serve` handles it once it listens
        sys.exit(130)


def _execute() -> None:
    """Run the command. What takes long to import is imported here, because the program may just
    have started again."""
    from django.core.management import execute_from_command_line
    from django.db import OperationalError, ProgrammingError, connection

    try:
        execute_from_command_line(sys.argv)
    except (OperationalError, ProgrammingError) as error:
        if _MISSING.search(str(error)) is None:
            raise
        from environments import command_line

        name = connection.settings_dict["NAME"]
        if connection.vendor != "sqlite":
            name = f"{connection.settings_dict['HOST']}/{name}"
        reason = str(error).splitlines()[0]
        sys.exit(
            f"The database {name} has not been migrated ({reason}). See whether ORSWEB_DATA_DIR or "
            "DATABASE_URL names the one that you mean; if so, run first: "
            f"{command_line.command('migrate')}"
        )


if __name__ == "__main__":
    main()
