"""The command line: `orsweb serve`, `orsweb migrate`, … where it is installed, `python manage.py …` in a checkout."""

import gc
import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line


def main() -> None:
    gc.set_threshold(10_000, 20, 50)  # starting makes 300,000 objects that stay; scanning them so often took 8 % of it
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "orsweb.settings")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:  # a variable with a wrong value: its sentence says all
        sys.exit(str(error))
    except KeyboardInterrupt:  # Ctrl-C while starting or migrating; `serve` handles its own once it listens
        sys.exit(130)


if __name__ == "__main__":
    main()
