"""Checks whether an environment keeps the contract. Authors run them before serving, and CI on every change.

The same checks run against a class in this process and against any server that speaks the protocol, through one
interface (`checked_environment.py`). Some checks need a class and are skipped for servers. `manage.py
check_environment` runs them; they need no database.
"""
