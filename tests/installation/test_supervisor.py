"""Parts that end are started again soon, and one of several stays at work (F8)."""

import signal
import sys
import time

import pytest

from panel import supervisor
from panel.supervisor import ChildProcess, Supervisor


@pytest.fixture
def signals():
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


def restart_delays(ends, *, has_sibling, lives=1.0):
    part = ChildProcess("worker 1", "true")
    found = []
    for _ in range(ends):
        part.started = time.monotonic() - lives
        found.append(part.backoff(has_sibling))
    return found


def test_the_first_start_is_at_once_and_further_ones_later():
    assert restart_delays(7, has_sibling=True) == [0, 1, 2, 4, 8, 15, 15]


def test_alone_it_waits_less():
    assert restart_delays(7, has_sibling=False) == [0, 1, 2, 4, 4, 4, 4]


def test_a_part_that_lived_is_started_at_once():
    assert restart_delays(5, has_sibling=True, lives=supervisor.STABLE_AFTER_SECONDS + 1) == [0] * 5


def test_two_workers_are_not_away_together(signals, capsys):
    """Both are killed again and again; within some seconds one works."""
    sleeping = (sys.executable, "-c", "import time; time.sleep(600)")
    workers = [ChildProcess(f"worker {number}", *sleeping) for number in (1, 2)]
    kept = Supervisor()
    kept.keep(*workers)
    try:
        for _ in range(4):
            for worker in workers:
                if worker.running:
                    worker.kill()
                    worker.process.wait()
            began = time.monotonic()
            while not any(worker.running for worker in workers):
                kept.turn(0.05)
                assert time.monotonic() - began < supervisor.MAX_RESTART_DELAY_WITHOUT_SIBLING_SECONDS + 1
    finally:
        kept.asked = 2
        kept.stop(*workers)
