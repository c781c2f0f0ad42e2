"""What can be made to go wrong on a simulated node. Kept on the node, so that every process meets it."""

import functools
import time
from dataclasses import dataclass

from worker.nodes.base import Full, NodeDriver, NoTicket, Refused, Unreachable
from worker.nodes.circuit_breaker import CircuitBreaker

FAULT_KINDS = ("slow", "refuse", "silent", "lost-answer", "full", "no-ticket")
NODE_OPERATIONS = NodeDriver.__abstractmethods__ - {"close"}
CAPACITY_OPERATIONS = frozenset(
    {"put_image", "upload_media", "copy_disk", "create_disk", "grow_disk", "create_seed", "start"}
)


@dataclass(frozen=True)
class Fault:
    operation: str
    """A method of the contract, or `*` for every one."""
    kind: str
    """`slow` adds seconds; `refuse` says no; `silent` keeps the caller waiting until its deadline; `lost-answer` does
    the work and does not say so; `full` has no room; `no-ticket` issues none for a screen."""
    remaining: int | None
    """How many calls will meet it; None: all, until it is cleared."""
    seconds: float


class Faults:
    def fault(self, operation, kind, count=None, seconds=None):
        """From now on calls of the operation meet the fault, in every process."""
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
            put = "INSERT INTO faults (operation, kind, remaining, seconds) VALUES (?, ?, ?, ?)"
            db.execute(put, (operation, kind, count, 1 if seconds is None else seconds))

    def clear(self):
        with self.state.transaction() as db:
            db.execute("DELETE FROM faults")

    def faults(self):
        return [Fault(*row) for row in self.state.rows("SELECT operation, kind, remaining, seconds FROM faults")]

    def _apply_faults(self, operation):
        """Goes through the faults that await the operation, oldest first. Says whether the answer will be lost."""
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
                raise Refused("The hypervisor refused this.", detail)
            elif kind == "full":
                raise Full("There is not enough room on the hypervisor.", detail)
            elif kind == "no-ticket":
                raise NoTicket("The hypervisor's cluster issued no ticket for the screen.", detail)
            elif kind == "silent":
                time.sleep(self.options.deadline)
                raise Unreachable("The hypervisor does not answer.", detail)
            else:
                lost = True
        return lost

    def _consume(self, number):
        """Takes one of the times a fault is to be met. False: other calls were quicker."""
        with self.state.transaction() as db:
            met = db.execute("UPDATE faults SET remaining = remaining - 1 WHERE id = ?", (number,)).rowcount
            db.execute("DELETE FROM faults WHERE remaining = 0")
        return met


MATCHING_FAULTS_QUERY = """
SELECT id, kind, seconds FROM faults
WHERE (operation = ? OR operation = '*' AND (remaining IS NULL OR ? <> 'watch')) AND (kind <> 'full' OR ?) ORDER BY id
"""
"""A watcher looks all the time: it would use up what was meant for the next call, so it leaves counted `*` alone."""


class InlineCircuitBreaker(CircuitBreaker):
    """Opens after silences as that of any driver. Work on a simulated node always ends, so it needs no thread."""

    def result(self, work, deadline, last_activity, acknowledged_after=None):
        return work()


def inject_faults(driver):
    """Class decorator: every operation of the contract goes through the circuit and meets the node's faults. A watcher
    meets them with each look."""
    for name in NODE_OPERATIONS - {"watch"}:
        setattr(driver, name, with_circuit_breaker(name, with_faults(name, getattr(driver, name))))
    driver.changes = with_faults("watch", driver.changes)
    return driver


def with_circuit_breaker(operation, method):
    @functools.wraps(method)
    def call(self, *args, **kwargs):
        work = functools.partial(method, self, *args, **kwargs)
        return self.circuit.run(work, self.options.deadline, probe=operation == "ping")

    return call


def with_faults(operation, method):
    @functools.wraps(method)
    def call(self, *args, **kwargs):
        lost = self._apply_faults(operation)
        result = method(self, *args, **kwargs)
        if lost:
            raise Unreachable("The hypervisor did not answer in time.", f"fault lost-answer on {operation}")
        return result

    return call
