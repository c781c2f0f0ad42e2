"""Guests that never answer after their first boot: the micro VM fails as if it could not have been created."""

from datetime import timedelta
from decimal import Decimal

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import MeteringRecord, Microvm, Task
from panel.services.microvms import boots, guest_reports
from worker.nodes.simulated import SimulatedNode
from worker.tasks import microvm_boots

KIND = "microvm_boot_check"


@pytest.fixture(autouse=True)
def short_wait(monkeypatch):
    monkeypatch.setattr(microvm_boots, "DAEMON_ANSWER_SECONDS", 0.2)


@pytest.fixture
def silent_microvm(create_microvm, node, monkeypatch, image):
    """A micro VM whose guest has hung while it booted."""
    image.price = Decimal("7.30")
    microvm = create_microvm()
    node.set_guest(microvm.id, agent=False)
    monkeypatch.setattr(SimulatedNode, "serve_channel", staticmethod(read_until_closed))
    return microvm


def read_until_closed(channel):
    while channel.recv(4096):
        pass


def let_boot_time_pass(microvm):
    row = session.get(Microvm, microvm.id, populate_existing=True)
    row.boot_ends_at -= timedelta(minutes=boots.MAX_BOOT_MINUTES)
    session.commit()


def count_checks():
    return session.query(Task).filter_by(kind=KIND).count()


@pytest.fixture
def check(run_tasks):
    """Return a function that lets the boot time of a micro VM pass, and its check run."""

    def run(microvm):
        let_boot_time_pass(microvm)
        microvm_boots.request_checks()
        microvm_boots.request_checks()
        run_tasks()

    return run


def test_guest_that_never_answers_fails_and_frees_the_node(silent_microvm, check, reload, names_on_node, call_api):
    check(silent_microvm)
    microvm = reload(silent_microvm)
    assert (microvm.state, microvm.error) == ("failed", "The guest did not answer within 5 minutes of its start.")
    assert names_on_node() == (set(), set())
    assert session.query(MeteringRecord.ended_at).filter_by(resource_id=microvm.id).one().ended_at is not None
    task = session.query(Task).filter_by(kind=KIND).one()
    assert (task.status, task.error, task.rollback_pending) == ("failed", microvm.error, False)
    assert call_api("DELETE", f"vm/{microvm.id}").status_code == 200


def test_guest_is_not_checked_before_its_boot_time_has_passed(silent_microvm, run_tasks, reload):
    microvm_boots.request_checks()
    run_tasks()
    assert (reload(silent_microvm).state, count_checks()) == ("running", 0)


@pytest.mark.parametrize("has_agent", [True, False])
def test_guest_that_answers_is_checked_once(create_microvm, node, check, reload, has_agent):
    """The agent is asked first, then the daemon."""
    microvm = create_microvm()
    node.set_guest(microvm.id, agent=has_agent)
    check(microvm)
    assert (reload(microvm).state, reload(microvm).boot_ends_at, count_checks()) == ("running", None, 1)
    microvm_boots.request_checks()
    assert count_checks() == 1


def test_guest_that_has_reported_is_not_checked(silent_microvm, reload):
    let_boot_time_pass(silent_microvm)
    sample = guest_reports.Sample(silent_microvm.id, int(clock.now().timestamp()), 0.0, 1, 2, 0, 1, 2)
    guest_reports.record([], [sample])
    session.commit()
    microvm_boots.request_checks()
    assert (reload(silent_microvm).state, count_checks()) == ("running", 0)


def test_report_during_the_check_keeps_the_microvm(silent_microvm, check, reload, monkeypatch, names_on_node):
    """The guest answers the router while the check waits."""

    def answer_router(*_arguments):
        microvm_boots.boots.record_answer(reload(silent_microvm))
        session.commit()
        return False

    monkeypatch.setattr(microvm_boots, "has_answered", answer_router)
    check(silent_microvm)
    assert reload(silent_microvm).state == "running"
    assert names_on_node()[0] == {silent_microvm.id}


@pytest.mark.parametrize("action", ["pause", "stop", "restart"])
def test_only_the_first_boot_is_checked(silent_microvm, request_action, run_tasks, reload, action):
    let_boot_time_pass(silent_microvm)
    request_action(reload(silent_microvm), action)
    run_tasks()
    microvm_boots.request_checks()
    assert (reload(silent_microvm).boot_ends_at, count_checks()) == (None, 0)


def test_member_of_a_warm_pool_is_not_checked(filled_pool, create_microvm):
    assert create_microvm().boot_ends_at is None


def test_check_is_repeated_when_the_node_did_not_respond(silent_microvm, node, run_tasks, reload, check):
    node.fault("open_channel", "lost-answer", 1)
    check(silent_microvm)
    assert (reload(silent_microvm).state, count_checks()) == ("running", 1)
    assert clock.now() < reload(silent_microvm).boot_ends_at <= clock.now() + boots.CHECK_RETRY_DELAY
    node.clear()
    node.ping()
    check(silent_microvm)
    assert (reload(silent_microvm).state, count_checks()) == ("failed", 2)


@pytest.mark.parametrize("fault", ["lost-answer", "killed"])
@pytest.mark.parametrize("call", ["delete", "delete_disk"])
def test_check_survives_fault_at_every_node_call(
    silent_microvm, node, run_tasks, manual_reaper, kill_worker_at, reload, names_on_node, call, fault
):
    let_boot_time_pass(silent_microvm)
    microvm_boots.request_checks()
    task = session.query(Task).filter_by(kind=KIND).one()
    if fault == "killed":
        kill_worker_at(task, call)
    else:
        node.fault(call, fault, 1)
        run_tasks()
    node.clear()
    node.ping()
    manual_reaper.advance(100)
    run_tasks()
    session.expire_all()
    assert (reload(silent_microvm).state, names_on_node()) == ("failed", (set(), set()))
    assert (task.status, task.rollback_pending) == ("failed", False)
