"""A local stand-in for the sandboxes of openreward.ai, which environments of the SDK `openreward`
ask for.

Such an environment runs commands and keeps files in a container that it gets from the address in
`OPENREWARD_SESSION_URL`. Here a program beside the server (`program.py`) answers there, over
bubblewrap. `service.py` starts it, `door.py` has its addresses, `images.py` says what a sandbox may
consist of, and `machine.py` is one sandbox.
"""
