"""Whether an environment keeps the contract: checks that an author runs before serving, and CI on every change.

The same checks look at a class of this process and at any server that speaks the protocol, through one door
(`door.py`); what only a class can tell is checked beside them. Driven by `manage.py check_environment`. Needs no
database.
"""
