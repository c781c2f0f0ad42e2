"""The registries of task types (which handler runs which task kind) and of periodic jobs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from panel.core import jobs
from panel.models import Task

if TYPE_CHECKING:
    from worker.engine.runner import TaskContext

Handler = TypeVar("Handler", bound="Callable[[TaskContext], None]")
Job = TypeVar("Job", bound=Callable[[], None])


@dataclass(frozen=True)
class BatchHandler:
    """How several tasks of a kind run together: their common first stage, and `body(works, until=...)`.

    The body leaves out tasks that are not simple, and stops at the first error or when `time.monotonic()` passes
    `until`. It returns the tasks that it completed, with changes of rows that are not committed yet.
    """

    stage: str
    body: "Callable[..., list[TaskContext]]"


@dataclass(frozen=True)
class TaskType:
    body: "Callable[[TaskContext], None]"
    on_failure: Callable[[Task, str], None] | None = None
    conflicts_with: tuple[str, ...] = ()
    is_requeued_early: bool = False


TASK_TYPES: dict[str, TaskType] = {}
BATCH_HANDLERS: dict[str, BatchHandler] = {}
"""By task kind."""


def task_handler(
    kind: str,
    *,
    on_failure: Callable[[Task, str], None] | None = None,
    conflicts_with: tuple[str, ...] = (),
    batch: BatchHandler | None = None,
    is_requeued_early: bool = False,
) -> Callable[[Handler], Handler]:
    """Register the handler of a task kind.

    `on_failure(task, error)` runs when the task failed or was cancelled. A task waits while a task of one of the kinds
    `conflicts_with` runs on the same resource. `is_requeued_early`: when the supervisor has seen the worker's end,
    another one begins without waiting for the lease; for tasks whose calls to nodes are short.
    """

    def register(body: Handler) -> Handler:
        TASK_TYPES[kind] = TaskType(body, on_failure, conflicts_with, is_requeued_early)
        if batch:
            BATCH_HANDLERS[kind] = batch
        return body

    return register


@dataclass(frozen=True)
class PeriodicJob:
    function: Callable[[], None]
    seconds: float
    in_scheduler: bool

    @property
    def path(self) -> str:
        """The dotted path of the function, as in queue messages."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def start(self) -> None:
        """Notify a worker, which calls the function, or call it here if it runs in the scheduler."""
        if self.in_scheduler:
            self.function()
        else:
            jobs.enqueue_call(self.path)


PERIODIC_JOBS: list[PeriodicJob] = []


def periodic(*, seconds: float, in_scheduler: bool = False) -> Callable[[Job], Job]:
    """Register a function without arguments that runs every so many seconds, in a worker.

    `in_scheduler`: it runs in the scheduler itself. It must be quick then, because other jobs wait meanwhile.
    """

    def register(function: Job) -> Job:
        PERIODIC_JOBS.append(PeriodicJob(function, seconds, in_scheduler))
        return function

    return register
