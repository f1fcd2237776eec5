"""The local operator: the account of whoever reaches a server without accounts; `orsweb/access.py` logs it in."""

OPERATOR = "local operator"
"""Its user name. The blank keeps it apart from every name that a form can give a user."""
