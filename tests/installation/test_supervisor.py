"""Child processes that end are restarted soon, and one of several keeps running (F8)."""

import signal
import sys
import time

import pytest

from panel import supervisor
from panel.cli.up import make_worker_namer
from panel.supervisor import ChildProcess, Supervisor


@pytest.fixture
def restored_signal_handlers():
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


def compute_restart_delays(restart_count, *, has_sibling, lifetime_seconds=1.0):
    child_process = ChildProcess("worker 1", "true")
    delays = []
    for _ in range(restart_count):
        child_process.started_at = time.monotonic() - lifetime_seconds
        delays.append(child_process.schedule_restart(has_sibling))
    return delays


def test_restart_delay_grows_after_first_restart():
    assert compute_restart_delays(7, has_sibling=True) == [0, 1, 2, 4, 8, 15, 15]


def test_restart_delay_without_sibling_is_shorter():
    assert compute_restart_delays(7, has_sibling=False) == [0, 1, 2, 4, 4, 4, 4]


def test_stable_process_is_restarted_immediately():
    assert compute_restart_delays(5, has_sibling=True, lifetime_seconds=supervisor.STABLE_AFTER_SECONDS + 1) == [0] * 5


def test_next_process_of_a_worker_knows_the_names_of_those_before(restored_signal_handlers, capfd):
    script = "import sys; print(*sys.argv[1:], flush=True)"
    namer = make_worker_namer()
    worker = ChildProcess("worker 1", sys.executable, "-c", script, make_arguments=namer)
    supervisor_under_test = Supervisor(has_prefix=False)
    supervisor_under_test.supervise(worker)
    ended_at = time.monotonic() + 20
    lines = []
    while len(lines) < 3 and time.monotonic() < ended_at:
        supervisor_under_test.run_once(0.05)
        lines += [line.split() for line in capfd.readouterr().out.splitlines() if line.startswith("--name")]
    supervisor_under_test.stop_signals = 2
    supervisor_under_test.stop(worker)
    first, second, third = (line[1] for line in lines)
    assert lines[0] == ["--name", first]
    assert lines[2] == ["--name", third, "--replaces", first, "--replaces", second]
    assert len({first, second, third}) == 3


def test_one_of_two_killed_workers_is_restarted_soon(restored_signal_handlers, capsys):
    """Both are killed repeatedly; within seconds one runs again."""
    command = (sys.executable, "-c", "import time; time.sleep(600)")
    workers = [ChildProcess(f"worker {number}", *command) for number in (1, 2)]
    supervisor_under_test = Supervisor()
    supervisor_under_test.supervise(*workers)
    try:
        for _ in range(4):
            for worker in workers:
                if worker.is_running:
                    worker.kill()
                    worker.process.wait()
            started_at = time.monotonic()
            while not any(worker.is_running for worker in workers):
                supervisor_under_test.run_once(0.05)
                # less than the delay of 8 s that it has with a sibling; a busy machine starts a process late
                assert time.monotonic() - started_at < supervisor.MAX_RESTART_DELAY_WITHOUT_SIBLING_SECONDS + 3
    finally:
        supervisor_under_test.stop_signals = 2
        supervisor_under_test.stop(*workers)
