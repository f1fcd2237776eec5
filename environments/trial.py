"""Trial of a spec, for pages: the door from their threads to the service, which plays a task's beginning.

Blocking; never called on the service's loop. What it finds is `environments.runtime.trial.Trial`.
"""

from __future__ import annotations

import json

from environments import wiring
from environments.errors import EnvironmentFault
from environments.runtime.trial import Trial

TRIAL_SECONDS = 30.0
"""For construct, setup and prompt together: who edits a task waits for it."""
_TEARDOWN_SECONDS = 30.0
"""More than the service's own limits of ending a session, which it keeps."""


def try_spec(environment: str, spec: str, seconds: float = TRIAL_SECONDS) -> Trial:
    """Play the beginning of a task whose JSON text is `spec`.

    Raises: UnknownEnvironment, NotPlaying; EnvironmentFault when even giving it up took too long.
    """
    value, most = json.loads(spec), seconds + _TEARDOWN_SECONDS
    try:
        return wiring.ask(lambda service: service.try_out(environment, value, seconds), most)
    except TimeoutError:
        raise EnvironmentFault("TimeoutError", f"the trial did not end within {most:g} s") from None
