"""The security log: who came in or was refused, and who changed permissions, exported, deleted or
redacted.

`note` takes an event from any thread and never waits. In a server one thread, `security`, writes
the events a second later: as a line of the logger `orsweb.security` and as a row of SecurityEvent.
Other processes write them at once.
"""

from environments.security_log.actor import Actor, acting
from environments.security_log.event import FAILURES, KINDS
from environments.security_log.log import note, remove_old, start, stop

__all__ = ["FAILURES", "KINDS", "Actor", "acting", "note", "remove_old", "start", "stop"]
