"""The secrets that the operator gives to environments, in a file or in the admin, which stores them
encrypted. `environments/runtime/environment_secrets.py` passes them to sessions."""
