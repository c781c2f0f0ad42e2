"""Whether a deploy reached its node: the operators' create waits a moment for that (specification 7.2).

The instance and its task are committed before, so nothing is lost whatever the answer is.
"""

from panel.core import jobs

QUICK_DEPLOY_SECONDS = 3
"""Seconds in which most deploys have ended, or failed."""
DISPATCH_TIMEOUT_SECONDS = 10
"""Seconds until nothing is known of a deploy that nobody confirmed."""
ACKNOWLEDGED_PROGRESS_PERCENT = 10
"""The progress of a deploy whose node has given its first answer."""


def wait_until_dispatched(task):
    """Commits and waits. True once the node has answered; False when nobody took the task, when the node was silent, or
    when it is not known what the node did."""
    jobs.wait_for_task(task, QUICK_DEPLOY_SECONDS)
    if not was_acknowledged(task):
        jobs.wait_for(
            task, lambda: not task.open or was_acknowledged(task), DISPATCH_TIMEOUT_SECONDS - QUICK_DEPLOY_SECONDS
        )
    return was_acknowledged(task)


def was_acknowledged(task):
    return task.progress >= ACKNOWLEDGED_PROGRESS_PERCENT and not task.undo_left
