"""Faults of a simulated node, on command. They are stored on the node, so every process meets them."""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from panel.core.messages import message
from worker.nodes.base import NoCapacity, NodeDriver, NoTicket, Refused, Unreachable
from worker.nodes.circuit_breaker import CircuitBreaker
from worker.nodes.simulated.machines import Machines
from worker.nodes.simulated.stored_node import StoredNode

FAULT_KINDS = ("slow", "refuse", "silent", "lost-answer", "full", "no-ticket")
NODE_OPERATIONS = NodeDriver.__abstractmethods__ - {"close"}
CAPACITY_OPERATIONS = frozenset(
    {
        "put_image",
        "upload_media",
        "copy_disk",
        "create_disk",
        "grow_disk",
        "create_seed",
        "start",
        "save",
        "begin_backup",
        "write_disk",
    }
)

Driver = TypeVar("Driver", bound=type[Machines])


@dataclass(frozen=True)
class Fault:
    operation: str
    """A method of the contract, or `*` for all of them."""
    kind: str
    """`slow` adds seconds; `refuse` raises `Refused`; `silent` makes the caller wait until its deadline; `lost-answer`
    does the work but raises `Unreachable`; `full` raises `NoCapacity`; `no-ticket` issues no ticket for a VNC
    console."""
    remaining: int | None
    """How many calls will meet it; None: all, until it is cleared."""
    seconds: float


class Faults(StoredNode):
    def fault(self, operation: str, kind: str, count: int | None = None, seconds: float | None = None) -> None:
        """Add a fault: from now on calls of the operation meet it, in every process."""
        if operation not in NODE_OPERATIONS | {"*"}:
            raise ValueError(
                f"{operation} is no operation of a node. There are: *, {', '.join(sorted(NODE_OPERATIONS))}."
            )
        if kind not in FAULT_KINDS:
            raise ValueError(f"{kind} is no kind of fault. There are: {', '.join(FAULT_KINDS)}.")
        if kind == "full" and operation not in CAPACITY_OPERATIONS | {"*"}:
            raise ValueError(f"{operation} needs no room. These do: {', '.join(sorted(CAPACITY_OPERATIONS))}.")
        if kind == "no-ticket" and not (operation == "console" and self.options.tickets):
            raise ValueError("Only the operation console of a node with tickets=1 in its address needs a ticket.")
        if count is not None and count < 1:
            raise ValueError("A fault is met at least once.")
        with self.state.transaction() as db:
            statement = "INSERT INTO faults (operation, kind, remaining, seconds) VALUES (?, ?, ?, ?)"
            db.execute(statement, (operation, kind, count, 1 if seconds is None else seconds))

    def clear(self) -> None:
        with self.state.transaction() as db:
            db.execute("DELETE FROM faults")

    def faults(self) -> list[Fault]:
        return [Fault(*row) for row in self.state.rows("SELECT operation, kind, remaining, seconds FROM faults")]

    def _apply_faults(self, operation: str) -> bool:
        """Apply the faults for the operation, oldest first; return whether the answer is to be lost."""
        lost = False
        for number, kind, seconds in self.state.rows(
            MATCHING_FAULTS_QUERY, operation, operation, operation in CAPACITY_OPERATIONS
        ):
            if not self._consume(number):
                continue
            detail = f"fault {kind} on {operation}"
            if kind == "slow":
                time.sleep(seconds)
            elif kind == "refuse":
                raise Refused(message("The hypervisor refused this."), detail)
            elif kind == "full":
                raise NoCapacity(message("The hypervisor does not have enough space left."), detail)
            elif kind == "no-ticket":
                raise NoTicket(message("The hypervisor's cluster issued no ticket for the console."), detail)
            elif kind == "silent":
                time.sleep(self.options.deadline)
                raise Unreachable(message("The hypervisor does not answer."), detail)
            else:
                lost = True
        return lost

    def _consume(self, number: int) -> int:
        """Use the fault once. False: other calls have used it up."""
        with self.state.transaction() as db:
            updated = db.execute("UPDATE faults SET remaining = remaining - 1 WHERE id = ?", (number,)).rowcount
            db.execute("DELETE FROM faults WHERE remaining = 0")
        return updated


MATCHING_FAULTS_QUERY = """
SELECT id, kind, seconds FROM faults
WHERE (operation = ? OR operation = '*' AND (remaining IS NULL OR ? <> 'watch_events')) AND (kind <> 'full' OR ?) ORDER
BY id
"""
"""A watcher polls all the time and would use up faults meant for other calls, so it ignores `*` faults with a count."""


class InlineCircuitBreaker(CircuitBreaker):
    """Opens after timeouts like that of any driver. Work on a simulated node always ends, so it needs no thread."""

    def wait_for_result(
        self,
        work: Callable[[], Any],
        deadline: float,
        last_activity: Callable[[], float],
        acknowledged_after: float | None = None,
    ) -> Any:
        return work()


def inject_faults(driver: Driver) -> Driver:
    """Class decorator: every operation of the contract goes through the circuit breaker and meets the node's faults. A
    watcher meets them with each poll, a reader of a backup with each read."""
    for name in NODE_OPERATIONS - {"watch_events"}:
        setattr(driver, name, with_circuit_breaker(name, with_faults(name, getattr(driver, name))))
    driver.changes = with_faults("watch_events", driver.changes)  # type: ignore[method-assign]  # a decorator
    driver.read_backup = with_faults("open_backup", driver.read_backup)  # type: ignore[attr-defined]
    return driver


def with_circuit_breaker(operation: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        work = functools.partial(method, self, *args, **kwargs)
        return self.circuit.run(work, self.options.deadline, probe=operation == "ping")

    return call


def with_faults(operation: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        lost = self._apply_faults(operation)
        result = method(self, *args, **kwargs)
        if lost:
            raise Unreachable(message("The hypervisor did not answer in time."), f"fault lost-answer on {operation}")
        return result

    return call
