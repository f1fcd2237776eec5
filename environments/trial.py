"""Trial of a spec, for pages: the door from their threads to the service, which plays a task's beginning.

Blocking; never called on the service's loop. What it finds is `environments.runtime.trial.Trial`.
"""

from __future__ import annotations

import json
import threading

from environments import wiring
from environments.errors import EnvironmentFault, OrsError
from environments.runtime.trial import Trial

TRIAL_SECONDS = 30.0
"""The most that construct, setup and prompt take together: who edits a task waits for it."""
_TEARDOWN_SECONDS = 30.0
"""Waited beyond the trial itself: more than the service's own limits for ending a session."""
AT_ONCE = 4
"""Each holds a thread of the pages and whatever the author's code takes; agents come first."""
WAIT_SECONDS = 15.0
"""The longest wait for a turn; then the person is told."""
_turns = threading.BoundedSemaphore(AT_ONCE)


class TrialsBusy(OrsError):
    def __init__(self) -> None:
        super().__init__(f"{AT_ONCE} trials are running, which is the most at once; try again when one has ended.")


def try_spec(environment: str, spec: str, seconds: float = TRIAL_SECONDS) -> Trial:
    """Play the beginning of a task whose JSON text is `spec`, once it is its turn.

    Raises: TrialsBusy, UnknownEnvironment, NotPlaying; EnvironmentFault when even giving it up took too long.
    """
    value, most = json.loads(spec), seconds + _TEARDOWN_SECONDS
    if not _turns.acquire(timeout=WAIT_SECONDS):
        raise TrialsBusy
    try:
        return wiring.ask(lambda service: service.try_out(environment, value, seconds), most)
    except TimeoutError:
        raise EnvironmentFault("TimeoutError", f"the trial did not end within {most:g} s") from None
    finally:
        _turns.release()
