"""What workers see of nodes, by events and by looking: machines that change, vanish, or belong to nobody."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Event, Hypervisor, Task
from panel.services import hypervisors as service
from panel.services.instances import state_reports
from worker.nodes.base import Disk, Machine, NotOnNode, Power
from worker.sync import node_sync

GiB = 1024**3


@pytest.fixture
def poll_node(cast):
    """Looks at all machines of the node, as happens every few seconds."""

    def look():
        node_sync.reconcile(cast.node.id)
        session.expire_all()

    return look


@pytest.fixture
def event(cast):
    def event(instance, power):
        node_sync.on_power_event(cast.node.id, instance.id, power)
        session.expire_all()

    return event


@pytest.fixture
def advance_time(monkeypatch):
    """Lets time pass without waiting for it."""
    moved = [timedelta()]
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + moved[0])

    def later(**time):
        moved[0] += timedelta(**time)

    return later


def test_a_guest_that_shuts_itself_down_is_seen(machine, node, poll_node, event_kinds):
    node.guest_powers_off(machine.id)
    poll_node()
    assert machine.state == "stopped"
    assert event_kinds(machine)[-1] == "instance.status_changed"
    poll_node()
    assert event_kinds(machine).count("instance.status_changed") == 1


def test_an_event_tells_at_once_and_the_next_look_says_the_same(machine, node, poll_node, event, event_kinds):
    node.guest_powers_off(machine.id)
    event(machine, Power.off)
    assert machine.state == "stopped"
    poll_node()
    node.external_start(machine.id)
    event(machine, Power.on)
    event(machine, Power.on)
    assert machine.state == "running"
    assert event_kinds(machine).count("instance.status_changed") == 2


def test_a_paused_machine_counts_as_on(machine, node, poll_node, event):
    node.suspend(machine.id)
    event(machine, Power.paused)
    poll_node()
    assert machine.state == "running"


def test_a_slow_look_does_not_overwrite_what_an_event_said_meanwhile(
    machine, node, poll_node, event, fault_at, event_kinds
):
    """The node had answered `on` when the guest went off and the event came, before the answer arrived."""

    def meanwhile():
        node.guest_powers_off(machine.id)
        event(machine, Power.off)

    with fault_at("machines", then=meanwhile, after=True):
        poll_node()
    assert machine.state == "stopped"
    assert event_kinds(machine).count("instance.status_changed") == 1
    poll_node()
    assert machine.state == "stopped"


def test_a_machine_that_goes_off_while_its_start_is_answered_is_off(
    machine, request_action, run_tasks, node, event, fault_at
):
    request_action(machine, "poweroff")
    run_tasks()

    def meanwhile():
        event(machine, Power.on)
        node.guest_powers_off(machine.id)
        event(machine, Power.off)

    asked = request_action(machine, "start")
    with fault_at("start", then=meanwhile, after=True):
        run_tasks()
    assert asked.status == "completed"
    assert machine.state == "stopped"


@pytest.mark.parametrize(
    ("before", "action", "call", "state"),
    [("off", "start", "start", "running"), ("on", "poweroff", "power_off", "stopped")],
)
def test_a_finished_call_is_newer_than_a_report_begun_while_it_ran(
    machine, request_action, run_tasks, node, poll_node, event, fault_at, advance_time, before, action, call, state
):
    """INS-05: the poll began after the call and before its effect, so it saw the old power. It was written before the
    call ended, or comes in later."""
    if before == "off":
        request_action(machine, "poweroff")
        run_tasks()
    held = []

    def poll_meanwhile():
        with fault_at("machines", then=lambda: held.append(clock.now()), after=True):
            advance_time(seconds=1)
            poll_node()
            advance_time(seconds=1)

    asked = request_action(machine, action)
    with fault_at(call, then=poll_meanwhile):
        run_tasks()
    assert (asked.status, machine.state) == ("completed", state)
    for instance in state_reports.lock_instances(machine.id):
        assert not state_reports.report_power(instance, before, at=held[0])
    assert machine.state == state


def test_what_a_task_brought_about_is_the_doing_of_who_asked(machine, request_action, run_tasks, event, fault_at):
    asked = request_action(machine, "poweroff")
    with fault_at("power_off", then=lambda: event(machine, Power.off), after=True):
        run_tasks()
    assert asked.status == "completed"
    [changed] = [found for found in events(machine) if found.kind == "instance.status_changed"]
    assert (changed.actor, changed.data) == ("owner@example.com", {"status": "stopped", "previous": "running"})


def events(resource):
    return session.scalars(select(Event).where(Event.resource_id == resource.id)).all()


def test_a_clock_that_was_set_back_does_not_blind_us(machine, node, poll_node, event, advance_time):
    advance_time(days=2)
    node.guest_powers_off(machine.id)
    poll_node()
    node.external_start(machine.id)
    poll_node()
    advance_time(days=-2)
    node.guest_powers_off(machine.id)
    poll_node()
    assert machine.state == "stopped"
    node.external_start(machine.id)
    event(machine, Power.on)
    assert machine.state == "running"


# --- machines that are not where they should be


@pytest.mark.parametrize("told", ["event", "look"])
def test_a_machine_removed_behind_our_back_is_an_error_and_no_crash(
    machine, node, poll_node, event, told, api_as, request_action, run_tasks, event_kinds
):
    node.external_delete(machine.id)
    event(machine, None) if told == "event" else poll_node()
    poll_node()
    assert (machine.state, machine.missing_on_node) == ("stopped", True)
    assert "missing" in machine.last_error
    assert api_as("owner", "GET", f"/api/instance/{machine.id}").json["state"] == "stopped"
    assert event_kinds(machine).count("instance.status_changed") == 1

    asked = request_action(machine, "start")  # its disks are there, so it is defined anew
    run_tasks()
    assert (asked.status, machine.state, machine.missing_on_node, machine.last_error) == (
        "completed",
        "running",
        False,
        None,
    )


@pytest.mark.parametrize("power", [None, Power.off])
def test_a_late_event_is_not_believed(machine, event, event_kinds, power):
    """A worker died in the middle of a create; what it had made was taken back and made anew, and only then was the
    node heard of that."""
    event(machine, power)
    assert (machine.state, machine.missing_on_node) == ("running", False)
    assert "instance.status_changed" not in event_kinds(machine)


def test_a_machine_that_comes_back_is_well_again(machine, node, poll_node, event, fault_at):
    def vanish():
        raise NotOnNode("The machine is not on the hypervisor.")

    with fault_at("power", then=vanish):
        event(machine, None)
    assert machine.missing_on_node
    poll_node()  # the node has it
    assert (machine.state, machine.missing_on_node, machine.last_error) == ("running", False, None)


def test_a_machine_that_is_being_removed_is_not_missed(
    machine, request_action, run_tasks, node, poll_node, event, fault_at, reload, event_kinds
):
    missed = []

    def meanwhile():
        event(machine, None)
        poll_node()
        missed.append(machine.missing_on_node)

    request_action(machine, "destroy")
    with fault_at("delete", then=meanwhile, after=True):
        run_tasks()
    assert missed == [False]
    assert reload(machine) is None


def test_a_machine_made_after_the_node_was_asked_is_not_missed(order, run_tasks, poll_node, fault_at):
    instance, _ = order()
    with fault_at("machines", then=run_tasks, after=True):
        poll_node()
    assert (instance.state, instance.missing_on_node) == ("running", False)


def test_a_machine_that_was_taken_back_is_off(order, run_tasks, node, event, poll_node):
    """A create failed after the machine was on; the events of that are in the row."""
    instance, _ = order()
    node.fault("start", "lost-answer", 1)
    run_tasks()
    event(instance, Power.on)
    event(instance, None)
    assert (instance.power, instance.missing_on_node, instance.state) == ("off", False, "pending")
    event(instance, Power.on)
    poll_node()
    assert instance.power == "off"


def test_events_of_others_are_not_ours(machine, node, cast):
    node_sync.on_power_event("00000000-0000-7000-8000-000000000000", machine.id, Power.off)
    node_sync.on_power_event(cast.node.id, "00000000-0000-7000-8000-000000000000", Power.off)
    assert machine.state == "running"


def test_unmanaged_machines_are_listed_and_not_changed(cast, machine, node, poll_node):
    node.create_disk(Disk("default", "theirs", GiB))
    stranger = Machine("6b0c6dd2-51a9-4d43-a1c5-3b6ab5a0f8a4", "theirs", 1, 512, (Disk("default", "theirs", GiB),))
    node.define(stranger)
    poll_node()
    assert cast.node.unmanaged_machines == [{"id": stranger.id, "name": "theirs"}]
    node.delete(stranger.id)
    poll_node()
    assert cast.node.unmanaged_machines == []


# --- counters


def test_traffic_is_counted_across_restarts(machine, node, poll_node, advance_time):
    card = machine.interfaces[0]

    def counted():
        return next(seen for seen in node.machines() if seen.id == machine.id).received[card.mac]

    advance_time(minutes=10)
    poll_node()
    first = card.received
    assert first > 0
    poll_node()
    assert card.received == pytest.approx(first, rel=0.01)
    node.guest_powers_off(machine.id)
    poll_node()
    node.external_start(machine.id)  # the node's counter begins anew
    advance_time(minutes=4)
    assert counted() < first
    poll_node()
    assert card.received == pytest.approx(first + counted(), rel=0.01)


def test_concurrent_polls_count_traffic_once(machine, poll_node, advance_time, fault_at, monkeypatch):
    """Two processes lead for a moment: the second looks between the question and the writing of the first."""
    card = machine.interfaces[0]
    advance_time(minutes=10)
    real = node_sync.iter_batches
    looks = iter([poll_node])
    monkeypatch.setattr(node_sync, "iter_batches", lambda rows: (next(looks, str)(), real(rows))[1])
    poll_node()
    once = card.received
    assert once == card.counted_received > 0


# --- nodes


def test_a_silent_node_is_down_and_its_machines_stay_as_they_were(cast, machine, node, poll_node):
    node.fault("*", "silent")
    poll_node()
    assert (cast.node.status, machine.state) == ("down", "running")
    assert "silent" in cast.node.status_detail
    assert service.get(cast.node.id).unschedulable_reason == "hypervisor_down"
    poll_node()
    node.clear()
    node.guest_powers_off(machine.id)
    poll_node()
    assert (cast.node.status, cast.node.status_detail, machine.state) == ("up", None, "stopped")


def test_an_answer_that_was_overtaken_does_not_count(cast, machine, node, poll_node, fault_at):
    """Somebody who asked later has heard from the node when the first one's call fails."""
    looks = iter([poll_node])

    def meanwhile():
        for other in looks:
            other()
            node.fault("machines", "silent", 1)

    with fault_at("machines", then=meanwhile):
        poll_node()
    assert node.faults() == []
    assert cast.node.status == "up"


def test_a_storage_that_cannot_be_used_has_no_room_and_the_node_goes_on(cast, machine, node, poll_node):
    made = service.create_storage(cast.node, name="second", path="/srv/second")
    session.commit()
    node.fault("prepare_pool", "refuse")
    node_sync.probe(cast.node.id)
    session.expire_all()
    assert cast.node.status == "up"
    assert "Storage second cannot be used" in cast.node.status_detail
    assert (made.capacity, made.free) == (0, 0)
    poll_node()
    assert "Storage second" in cast.node.status_detail
    node.clear()
    node_sync.probe(cast.node.id)
    session.expire_all()
    assert cast.node.status_detail is None
    assert made.capacity > 0


def test_a_node_that_was_removed_meanwhile(cast, fault_at, poll_node):
    node_sync.reconcile("00000000-0000-7000-8000-000000000000")
    node_sync.probe("00000000-0000-7000-8000-000000000000")
    assert session.get(Hypervisor, cast.node.id).status == "up"


def test_many_machines_take_few_queries(cast, machine, order, run_tasks, poll_node, queries):
    poll_node()
    queries.clear()
    poll_node()
    few = len(queries)
    for _ in range(8):
        order()
    run_tasks()
    poll_node()
    queries.clear()
    poll_node()
    assert len(queries) == few


def test_a_guest_that_its_hypervisor_paused_is_reported_and_resumed(
    api_as, machine, node, poll_node, request_action, run_tasks, reload_task
):
    """As QEMU does when a storage is full: it counts as on, but does not run."""
    node.suspend(machine.id)
    poll_node()
    shown = api_as("owner", "GET", f"/api/instance/{machine.id}").json
    assert (shown["state"], "paused" in shown["last_error"]) == ("running", True)
    woken = api_as("owner", "POST", f"/api/instance/{machine.id}/power/start").json["task_id"]
    run_tasks()
    assert session.get(Task, woken).status == "completed"
    assert node.power(machine.id) is Power.on
    poll_node()
    assert api_as("owner", "GET", f"/api/instance/{machine.id}").json["last_error"] is None
    assert "task_id" not in api_as("owner", "POST", f"/api/instance/{machine.id}/power/start").json


def test_what_is_paused_for_a_task_is_no_news(machine, node, poll_node, request_action):
    request_action(machine, "restart")
    node.suspend(machine.id)
    poll_node()
    assert machine.last_error is None


def test_a_guest_that_was_resumed_elsewhere_is_recorded(machine, node, poll_node):
    node.suspend(machine.id)
    poll_node()
    assert machine.last_error
    node.resume(machine.id)
    poll_node()
    assert machine.last_error is None


def test_a_paused_guest_is_stopped_by_the_plug(machine, node, poll_node, request_action, run_tasks, reload_task):
    """It cannot be asked, and a stop promises that the machine is off."""
    node.suspend(machine.id)
    poll_node()
    asked = request_action(machine, "shutdown")
    run_tasks()
    assert (reload_task(asked).status, "paused" in reload_task(asked).error) == ("failed", True)
    asked = request_action(machine, "stop")
    run_tasks()
    session.expire_all()
    assert (reload_task(asked).status, machine.state, machine.last_error) == ("completed", "stopped", None)
