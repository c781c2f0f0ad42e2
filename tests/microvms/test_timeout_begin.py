"""From when the time-out of a micro VM counts: it begins when the guest can be used, not with the request."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Microvm
from panel.services import microvms
from panel.services.microvms import guest_reports, timeouts
from worker.tasks import microvms as tasks

TIMEOUT_SECONDS = 30


@pytest.fixture
def starting_microvm(call_api, microvm_body):
    """A micro VM whose create task has not run yet."""
    vm = call_api("POST", "vms", **microvm_body, timeout_seconds=TIMEOUT_SECONDS).json["vm"]
    return session.get(Microvm, vm["id"])


@pytest.fixture
def router(monkeypatch):
    """A router that collects reports of guests."""
    monkeypatch.setattr(guest_reports, "has_collector", lambda: True)


def pass_time(microvm, seconds):
    """Let time pass for the micro VM and run the job that ends expired ones."""
    for column in ("expires_at", "state_changed_at"):
        setattr(microvm, column, getattr(microvm, column) - timedelta(seconds=seconds))
    session.commit()
    tasks.end_expired()


def get_remaining_seconds(microvm):
    return (microvm.expires_at - clock.now()).total_seconds()


def report(microvm, age=0):
    at = int(clock.now().timestamp()) - age
    guest_reports.record([], [guest_reports.Sample(microvm.id, at, 0.0, 1, 2, 0, 1, 2)])
    session.commit()


def test_timeout_counts_from_the_end_of_the_create(starting_microvm, run_tasks, reload):
    microvm = starting_microvm
    pass_time(microvm, 2 * TIMEOUT_SECONDS)
    assert reload(microvm).state == "starting"
    run_tasks()
    tasks.end_expired()
    assert reload(microvm).state == "running"
    assert TIMEOUT_SECONDS - 10 < get_remaining_seconds(microvm) <= TIMEOUT_SECONDS
    pass_time(microvm, TIMEOUT_SECONDS)
    assert reload(microvm).state == "destroying"


@pytest.mark.parametrize(("off", "on"), [("stop", "start"), ("pause", "resume")])
def test_timeout_counts_from_the_end_of_start_and_resume(create_microvm, request_action, run_tasks, reload, off, on):
    microvm = create_microvm(timeout_seconds=TIMEOUT_SECONDS, on_timeout="pause")
    request_action(microvm, off)
    run_tasks()
    request_action(reload(microvm), on)
    pass_time(microvm, 2 * TIMEOUT_SECONDS)
    run_tasks()
    tasks.end_expired()
    assert reload(microvm).state == "running"
    assert get_remaining_seconds(microvm) > TIMEOUT_SECONDS - 10
    pass_time(microvm, TIMEOUT_SECONDS)
    assert reload(microvm).state == "pausing"


def test_timeout_counts_from_the_end_of_a_rollback_that_starts(create_microvm, request_action, run_tasks, reload):
    microvm = create_microvm(timeout_seconds=TIMEOUT_SECONDS)
    snapshot, _task = microvms.snapshots.create(microvm, actor="test")
    session.commit()
    run_tasks()
    request_action(reload(microvm), "pause")
    run_tasks()
    microvms.snapshots.roll_back(snapshot, actor="test")
    pass_time(reload(microvm), 2 * TIMEOUT_SECONDS)
    run_tasks()
    assert reload(microvm).state == "running"
    assert get_remaining_seconds(microvm) > TIMEOUT_SECONDS - 10


@pytest.mark.parametrize("seconds", [5, 5000, None])
def test_timeout_that_the_owner_sets_during_the_start_stays(call_api, starting_microvm, run_tasks, reload, seconds):
    call_api("PATCH", f"vm/{starting_microvm.id}", timeout_seconds=seconds)
    expires_at = reload(starting_microvm).expires_at
    run_tasks()
    assert (reload(starting_microvm).state, starting_microvm.expires_at) == ("running", expires_at)
    assert (expires_at is None) == (seconds is None)


def test_failed_create_is_ended_by_its_timeout(starting_microvm, node, run_tasks, reload):
    node.fault("start", "refuse", 1)
    run_tasks()
    assert reload(starting_microvm).state == "failed"
    pass_time(starting_microvm, TIMEOUT_SECONDS)
    assert reload(starting_microvm).state == "destroying"


def test_timeout_counts_from_the_first_report_of_the_guest(router, starting_microvm, run_tasks, reload):
    microvm = starting_microvm
    run_tasks()
    pass_time(reload(microvm), TIMEOUT_SECONDS + 5)
    assert reload(microvm).state == "running"
    report(microvm, age=5)
    assert get_remaining_seconds(reload(microvm)) > TIMEOUT_SECONDS - 10
    pass_time(microvm, TIMEOUT_SECONDS / 2)
    report(microvm)
    assert get_remaining_seconds(reload(microvm)) < TIMEOUT_SECONDS / 2
    pass_time(microvm, TIMEOUT_SECONDS / 2)
    assert reload(microvm).state == "destroying"


def test_guest_that_reports_nothing_does_not_live_longer(router, starting_microvm, run_tasks, reload):
    run_tasks()
    pass_time(reload(starting_microvm), timeouts.GUEST_START_LIMIT.total_seconds())
    assert reload(starting_microvm).state == "destroying"
