"""Whether a deploy reached its node: the operators' create waits a moment for that (specification 7.2).

The instance and its task are committed before, so nothing is lost whatever the answer is.
"""

from panel.core import jobs

SOON = 3
"""Seconds in which most deploys have ended, or failed."""
PATIENCE = 10
"""Seconds until nothing is known of a deploy that nobody confirmed."""
ANSWERED = 10
"""The progress of a deploy whose node has given its first answer."""


def confirmed(task):
    """Commits and waits. True once the node has answered; False when nobody took the task, when the node was silent, or
    when it is not known what the node did."""
    jobs.outcome(task, SOON)
    if not answered(task):
        jobs.awaited(task, lambda: not task.open or answered(task), PATIENCE - SOON)
    return answered(task)


def answered(task):
    return task.progress >= ANSWERED and not task.undo_left
