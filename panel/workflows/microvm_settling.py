"""Wait until a micro VM is no longer being started, paused or stopped, for callers that act on it next."""

from panel.core.errors import Unavailable
from panel.core.messages import message
from panel.services.microvms.actions import BUSY_STATES
from panel.workflows import waiting

SETTLE_TIMEOUT_SECONDS = 20


def wait_until_settled(microvm):
    """Commit and wait for the task that changes the micro VM's state. Raise Unavailable when it takes longer."""
    if microvm.state in BUSY_STATES:
        waiting.wait_for(microvm, lambda: microvm.state not in BUSY_STATES, SETTLE_TIMEOUT_SECONDS)
    if microvm.state in BUSY_STATES:
        raise Unavailable(message("The micro VM is busy. Try again in a few seconds."), reason="microvm_busy")
