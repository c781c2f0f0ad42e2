"""The kinds of tasks that a worker knows, and what carries each."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Together:
    """How several tasks of a kind are carried in one go: what they all say at first, and `body(works, until=...)`. It
    leaves aside what is not quite ordinary, stops at the first fault and when `time.monotonic()` passes `until`, and
    returns what it carried, with changes of rows that are not committed yet."""

    stage: str
    body: Callable


@dataclass(frozen=True)
class Kind:
    body: Callable
    ended_badly: Callable | None = None
    after: tuple[str, ...] = ()
    together: Together | None = None


KINDS: dict[str, Kind] = {}


def task(kind, *, ended_badly=None, after=(), together=None):
    """Registers the body of a task kind. `ended_badly(task, error)` runs when the task failed or was cancelled. A task
    waits while one of the kinds `after` runs on the same resource."""

    def register(body):
        KINDS[kind] = Kind(body, ended_badly, after, together)
        return body

    return register
