"""The registries of task types (which handler runs which task kind) and of periodic jobs."""

from collections.abc import Callable
from dataclasses import dataclass

from panel.core import jobs


@dataclass(frozen=True)
class BatchHandler:
    """How several tasks of a kind run together: their common first stage, and `body(works, until=...)`.

    The body leaves out tasks that are not simple, and stops at the first error or when `time.monotonic()` passes
    `until`. It returns the tasks that it completed, with changes of rows that are not committed yet.
    """

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
    """Register the handler of a task kind.

    `on_failure(task, error)` runs when the task failed or was cancelled. A task waits while a task of one of the kinds
    `conflicts_with` runs on the same resource.
    """

    def register(body):
        TASK_TYPES[kind] = TaskType(body, on_failure, conflicts_with, batch)
        return body

    return register


@dataclass(frozen=True)
class PeriodicJob:
    function: Callable
    seconds: float
    in_scheduler: bool

    @property
    def path(self):
        """The dotted path of the function, as in queue messages."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def start(self):
        """Notify a worker, which calls the function, or call it here if it runs in the scheduler."""
        if self.in_scheduler:
            self.function()
        else:
            jobs.enqueue_call(self.path)


PERIODIC_JOBS: list[PeriodicJob] = []


def periodic(*, seconds, in_scheduler=False):
    """Register a function without arguments that runs every so many seconds, in a worker.

    `in_scheduler`: it runs in the scheduler itself. It must be quick then, because other jobs wait meanwhile.
    """

    def register(function):
        PERIODIC_JOBS.append(PeriodicJob(function, seconds, in_scheduler))
        return function

    return register
