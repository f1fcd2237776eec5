"""The secrets that the operator gives to environments: from a file, or in the admin, which stores
them encrypted. `environments/runtime/operator_secrets.py` plays with them."""
