"""A deadline for every call to a node, and a circuit breaker for unresponsive nodes.

A call runs in a thread of its own, because a library that waits for a lost node cannot be interrupted; the caller
continues after the deadline and the thread ends when its call returns. After several timeouts in a row the circuit is
open: calls fail at once, except one now and then (or a `probe`) that tests whether the node is back.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from panel.core.messages import message
from worker.nodes.base import Unreachable

FAILURE_THRESHOLD = 3
"""Timeouts in a row until the circuit opens."""

CIRCUIT_RETRY_SECONDS = 10.0
"""Seconds between two attempts while the circuit is open."""

MAX_CALLS_IN_FLIGHT = 128
"""Calls in progress, including those past their deadline. With the pauses this is more than the network keeps
waiting."""


class CircuitBreaker:
    def __init__(self, name: str) -> None:
        self.name = name
        self.reset()

    def reset(self) -> None:
        self.pid = os.getpid()
        self.slots = threading.BoundedSemaphore(MAX_CALLS_IN_FLIGHT)
        self.timeouts = 0
        self.retry_at = 0.0

    @property
    def open(self) -> bool:
        return self.timeouts >= FAILURE_THRESHOLD

    def run(
        self,
        work: Callable[[], Any],
        deadline: float,
        last_activity: Callable[[], float] = lambda: 0.0,
        acknowledged_after: float | None = None,
        probe: bool = False,
    ) -> Any:
        """Return what `work` returns, or raise what it raises; raise `Unreachable` when it takes longer than `deadline`
        seconds. For long transfers `last_activity()` returns when data last moved (monotonic), and the deadline counts
        from then. With `acknowledged_after` (seconds) the call returns None after that time unless `work` failed by
        then: the request was sent, and its answer is not needed."""
        if self.pid != os.getpid():
            self.reset()  # the threads and locks of a parent process mean nothing in its child
        if self.open and not probe and not self.claim_retry():
            raise Unreachable(message("The hypervisor does not answer."), f"{self.name}: the circuit is open")
        try:
            result = self.wait_for_result(work, deadline, last_activity, acknowledged_after)
        except Unreachable:
            self.timeouts += 1
            self.retry_at = time.monotonic() + CIRCUIT_RETRY_SECONDS
            raise
        except Exception:
            self.timeouts = 0  # the node answered, even if with an error
            raise
        self.timeouts = 0
        return result

    def claim_retry(self) -> bool:
        """Return True for one caller in each retry interval."""
        if time.monotonic() < self.retry_at:
            return False
        self.retry_at = time.monotonic() + CIRCUIT_RETRY_SECONDS
        return True

    def wait_for_result(
        self,
        work: Callable[[], Any],
        deadline: float,
        last_activity: Callable[[], float],
        acknowledged_after: float | None,
    ) -> Any:
        future: Future[Any] = Future()
        limit = time.monotonic() + deadline
        if not self.slots.acquire(timeout=deadline):
            raise Unreachable(
                message("The hypervisor does not answer."),
                f"{self.name}: {MAX_CALLS_IN_FLIGHT} calls wait for an answer",
            )
        threading.Thread(
            target=run_call, args=(work, future, self.slots), name=f"node {self.name}", daemon=True
        ).start()
        if acknowledged_after is not None and not wait([future], acknowledged_after).done:
            return None
        while not wait([future], max(0.0, limit - time.monotonic())).done:
            if last_activity() + deadline <= limit:
                detail = f"{self.name}: silent for {deadline:g} seconds"
                raise Unreachable(message("The hypervisor did not answer in time."), detail)
            limit = last_activity() + deadline
        return future.result()


def run_call(work: Callable[[], Any], future: Future[Any], slots: threading.BoundedSemaphore) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
    finally:
        slots.release()
