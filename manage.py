#!/usr/bin/env python
"""Django's command line for this project: `serve`, `migrate`, `createsuperuser`, …"""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orsweb.settings")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:  # a variable with a wrong value: its sentence says all
        sys.exit(str(error))
    except KeyboardInterrupt:  # Ctrl-C while starting or migrating; `serve` handles its own once it listens
        sys.exit(130)


if __name__ == "__main__":
    main()
