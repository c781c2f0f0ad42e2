"""Wait until a deploy has reached its node, for the operators' create (INS-93).

The instance and its task are committed first, so neither depends on the answer.
"""

from panel.workflows import waiting

QUICK_DEPLOY_SECONDS = 3
"""Most deploys complete or fail within this time."""
DISPATCH_TIMEOUT_SECONDS = 10
"""Time after which an unacknowledged deploy counts as not dispatched."""
ACKNOWLEDGED_PROGRESS_PERCENT = 10
"""The progress of a deploy after the first answer of its node."""


def wait_until_dispatched(task):
    """Commit and wait until the node acknowledges the deploy. Return False when no worker claimed the task, the node
    did not answer, or the outcome on the node is unknown."""
    waiting.wait_for_task(task, QUICK_DEPLOY_SECONDS)
    if not was_acknowledged(task):
        waiting.wait_for(
            task, lambda: not task.open or was_acknowledged(task), DISPATCH_TIMEOUT_SECONDS - QUICK_DEPLOY_SECONDS
        )
    return was_acknowledged(task)


def was_acknowledged(task):
    return task.progress >= ACKNOWLEDGED_PROGRESS_PERCENT and not task.rollback_pending
