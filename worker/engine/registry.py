"""The kinds of tasks that a worker knows, and what carries each."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class BatchHandler:
    """How several tasks of a kind are carried in one go: what they all say at first, and `body(works, until=...)`. It
    leaves aside what is not quite ordinary, stops at the first fault and when `time.monotonic()` passes `until`, and
    returns what it carried, with changes of rows that are not committed yet."""

    stage: str
    body: Callable


@dataclass(frozen=True)
class TaskType:
    body: Callable
    on_failure: Callable | None = None
    conflicts_with: tuple[str, ...] = ()
    batch: BatchHandler | None = None


TASK_TYPES: dict[str, TaskType] = {}


def task_handler(kind, *, on_failure=None, conflicts_with=(), batch=None):
    """Registers the body of a task kind. `ended_badly(task, error)` runs when the task failed or was cancelled. A task
    waits while one of the kinds `after` runs on the same resource."""

    def register(body):
        TASK_TYPES[kind] = TaskType(body, on_failure, conflicts_with, batch)
        return body

    return register
