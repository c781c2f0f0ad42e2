"""What workers learn of nodes by events and polls: machines that change, vanish or are unmanaged."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.core.messages import get_message
from panel.models import Event, Hypervisor, Task
from panel.services import hypervisors as service
from panel.services.instances import state_reports
from worker.engine import claiming
from worker.nodes.base import Disk, Machine, NodeError, NotOnNode, Power
from worker.sync import metrics, node_sync

GiB = 1024**3


@pytest.fixture
def poll_node(cast):
    """Return a function that polls all machines of the node, as the scheduler does every few seconds."""

    def poll():
        node_sync.reconcile(cast.node.id)
        session.expire_all()

    return poll


@pytest.fixture
def send_power_event(cast):
    def send(instance, power):
        node_sync.on_power_event(cast.node.id, instance.id, power)
        session.expire_all()

    return send


@pytest.fixture
def advance_time(monkeypatch):
    """Return a function that moves the clock: `advance_time(minutes=10)`."""
    offset = [timedelta()]
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + offset[0])

    def advance(**time):
        offset[0] += timedelta(**time)

    return advance


def test_poll_records_guest_shutdown(running_instance, node, poll_node, event_kinds):
    node.guest_powers_off(running_instance.id)
    poll_node()
    assert running_instance.state == "stopped"
    assert event_kinds(running_instance)[-1] == "instance.status_changed"
    poll_node()
    assert event_kinds(running_instance).count("instance.status_changed") == 1


def test_power_event_and_next_poll_record_one_change(running_instance, node, poll_node, send_power_event, event_kinds):
    node.guest_powers_off(running_instance.id)
    send_power_event(running_instance, Power.off)
    assert running_instance.state == "stopped"
    poll_node()
    node.external_start(running_instance.id)
    send_power_event(running_instance, Power.on)
    send_power_event(running_instance, Power.on)
    assert running_instance.state == "running"
    assert event_kinds(running_instance).count("instance.status_changed") == 2


def test_paused_machine_counts_as_running(running_instance, node, poll_node, send_power_event):
    node.suspend(running_instance.id)
    send_power_event(running_instance, Power.paused)
    poll_node()
    assert running_instance.state == "running"


def test_slow_poll_does_not_overwrite_newer_event(
    running_instance, node, poll_node, send_power_event, fault_at, event_kinds
):
    """The node had answered `on` before the guest went off, and the event arrived before the answer."""

    def power_off_with_event():
        node.guest_powers_off(running_instance.id)
        send_power_event(running_instance, Power.off)

    with fault_at("machines", then=power_off_with_event, after=True):
        poll_node()
    assert running_instance.state == "stopped"
    assert event_kinds(running_instance).count("instance.status_changed") == 1
    poll_node()
    assert running_instance.state == "stopped"


def test_event_is_queried_again_when_another_report_overlaps(running_instance, node, send_power_event, fault_at):
    """A poll read `on` before the guest went off, and was recorded while the event's query ran."""
    reports = []

    def report_on():
        if not reports:
            [row] = state_reports.lock_instances(running_instance.id)
            reports.append(state_reports.report_power(row, "on", at=clock.now()))
            session.commit()

    node.guest_powers_off(running_instance.id)
    with fault_at("power", then=report_on):
        send_power_event(running_instance, Power.off)
    assert reports == [True]
    assert running_instance.state == "stopped"


def test_report_of_overlapping_query_is_rejected(running_instance, advance_time):
    """Both queries had begun before either was recorded, so which of them read the newer power is unknown."""
    times = []
    for _ in range(3):
        advance_time(seconds=1)
        times.append(clock.now())
    [row] = state_reports.lock_instances(running_instance.id)
    assert state_reports.report_power(row, "off", at=times[0])
    assert not state_reports.report_power(row, "on", at=times[1])
    assert running_instance.state == "stopped"
    advance_time(seconds=1)
    assert state_reports.report_power(row, "on", at=clock.now())


def test_power_off_event_during_start_is_recorded(
    running_instance, request_action, run_tasks, node, send_power_event, fault_at
):
    request_action(running_instance, "poweroff")
    run_tasks()

    def send_on_and_off_events():
        send_power_event(running_instance, Power.on)
        node.guest_powers_off(running_instance.id)
        send_power_event(running_instance, Power.off)

    task = request_action(running_instance, "start")
    with fault_at("start", then=send_on_and_off_events, after=True):
        run_tasks()
    assert task.status == "completed"
    assert running_instance.state == "stopped"


@pytest.mark.parametrize(
    ("before", "action", "call", "state"),
    [("off", "start", "start", "running"), ("on", "poweroff", "power_off", "stopped")],
)
def test_power_call_result_overrides_poll_begun_during_call(
    running_instance,
    request_action,
    run_tasks,
    node,
    poll_node,
    send_power_event,
    fault_at,
    advance_time,
    before,
    action,
    call,
    state,
):
    """INS-05: the poll began after the call and before its effect, so it read the old power. It was written before the
    call ended, or arrives later."""
    if before == "off":
        request_action(running_instance, "poweroff")
        run_tasks()
    poll_times = []

    def poll_during_call():
        with fault_at("machines", then=lambda: poll_times.append(clock.now()), after=True):
            advance_time(seconds=1)
            poll_node()
            advance_time(seconds=1)

    task = request_action(running_instance, action)
    with fault_at(call, then=poll_during_call):
        run_tasks()
    assert (task.status, running_instance.state) == ("completed", state)
    for instance in state_reports.lock_instances(running_instance.id):
        assert not state_reports.report_power(instance, before, at=poll_times[0])
    assert running_instance.state == state


def test_status_event_of_task_names_requesting_actor(
    running_instance, request_action, run_tasks, send_power_event, fault_at
):
    task = request_action(running_instance, "poweroff")
    with fault_at("power_off", then=lambda: send_power_event(running_instance, Power.off), after=True):
        run_tasks()
    assert task.status == "completed"
    [status_event] = [event for event in list_events(running_instance) if event.kind == "instance.status_changed"]
    assert (status_event.actor, status_event.data) == (
        "owner@example.com",
        {"status": "stopped", "previous": "running"},
    )


def list_events(resource):
    return session.scalars(select(Event).where(Event.resource_id == resource.id)).all()


def test_power_reports_are_accepted_after_clock_moves_back(
    running_instance, node, poll_node, send_power_event, advance_time
):
    advance_time(days=2)
    node.guest_powers_off(running_instance.id)
    poll_node()
    node.external_start(running_instance.id)
    poll_node()
    advance_time(days=-2)
    node.guest_powers_off(running_instance.id)
    poll_node()
    assert running_instance.state == "stopped"
    node.external_start(running_instance.id)
    send_power_event(running_instance, Power.on)
    assert running_instance.state == "running"


# --- machines missing on the node


@pytest.mark.parametrize("source", ["event", "poll"])
def test_externally_deleted_machine_is_reported_missing(
    running_instance, node, poll_node, send_power_event, source, api_as, request_action, run_tasks, event_kinds
):
    node.external_delete(running_instance.id)
    send_power_event(running_instance, None) if source == "event" else poll_node()
    poll_node()
    assert (running_instance.state, running_instance.missing_on_node) == ("stopped", True)
    assert "missing" in running_instance.last_error
    assert api_as("owner", "GET", f"/api/instance/{running_instance.id}").json["state"] == "stopped"
    assert event_kinds(running_instance).count("instance.status_changed") == 1

    task = request_action(running_instance, "start")  # its disks exist, so it is defined again
    run_tasks()
    assert (task.status, running_instance.state, running_instance.missing_on_node, running_instance.last_error) == (
        "completed",
        "running",
        False,
        None,
    )


@pytest.mark.parametrize("power", [None, Power.off])
def test_late_power_event_is_ignored(running_instance, send_power_event, event_kinds, power):
    """A worker died during a deploy and its machine was deleted and created again before the events arrived."""
    send_power_event(running_instance, power)
    assert (running_instance.state, running_instance.missing_on_node) == ("running", False)
    assert "instance.status_changed" not in event_kinds(running_instance)


def test_missing_machine_recovers_at_next_poll(running_instance, node, poll_node, send_power_event, fault_at):
    def vanish():
        raise NotOnNode("The machine is not on the hypervisor.")

    with fault_at("power", then=vanish):
        send_power_event(running_instance, None)
    assert running_instance.missing_on_node
    poll_node()  # the machine is on the node
    assert (running_instance.state, running_instance.missing_on_node, running_instance.last_error) == (
        "running",
        False,
        None,
    )


def test_machine_being_destroyed_is_not_reported_missing(
    running_instance, request_action, run_tasks, node, poll_node, send_power_event, fault_at, reload, event_kinds
):
    missing_flags = []

    def send_event_and_poll():
        send_power_event(running_instance, None)
        poll_node()
        missing_flags.append(running_instance.missing_on_node)

    request_action(running_instance, "destroy")
    with fault_at("delete", then=send_event_and_poll, after=True):
        run_tasks()
    assert missing_flags == [False]
    assert reload(running_instance) is None


def test_machine_created_during_poll_is_not_reported_missing(request_deploy, run_tasks, poll_node, fault_at):
    instance, _ = request_deploy()
    with fault_at("machines", then=run_tasks, after=True):
        poll_node()
    assert (instance.state, instance.missing_on_node) == ("running", False)


def test_machine_of_failed_deploy_is_recorded_as_off(request_deploy, run_tasks, node, send_power_event, poll_node):
    """A deploy failed after the machine was on. Its events arrive afterwards."""
    instance, _ = request_deploy()
    node.fault("start", "lost-answer", 1)
    run_tasks()
    send_power_event(instance, Power.on)
    send_power_event(instance, None)
    assert (instance.power, instance.missing_on_node, instance.state) == ("off", False, "pending")
    send_power_event(instance, Power.on)
    poll_node()
    assert instance.power == "off"


def test_power_events_with_unknown_ids_are_ignored(running_instance, node, cast):
    node_sync.on_power_event("00000000-0000-7000-8000-000000000000", running_instance.id, Power.off)
    node_sync.on_power_event(cast.node.id, "00000000-0000-7000-8000-000000000000", Power.off)
    assert running_instance.state == "running"


def test_unmanaged_machines_are_listed(cast, running_instance, node, poll_node):
    node.create_disk(Disk("default", "theirs", GiB))
    machine = Machine("6b0c6dd2-51a9-4d43-a1c5-3b6ab5a0f8a4", "theirs", 1, 512, (Disk("default", "theirs", GiB),))
    node.define(machine)
    poll_node()
    assert cast.node.unmanaged_machines == [{"id": machine.id, "name": "theirs"}]
    node.delete(machine.id)
    poll_node()
    assert cast.node.unmanaged_machines == []


# --- counters


def test_traffic_is_counted_across_restarts(running_instance, node, poll_node, advance_time):
    interface = running_instance.interfaces[0]

    def read_node_counter():
        return next(machine for machine in node.machines() if machine.id == running_instance.id).received[interface.mac]

    advance_time(minutes=10)
    poll_node()
    first = interface.received
    assert first > 0
    poll_node()
    assert interface.received == pytest.approx(first, rel=0.01)
    node.guest_powers_off(running_instance.id)
    poll_node()
    node.external_start(running_instance.id)  # resets the node's counter
    advance_time(minutes=4)
    assert read_node_counter() < first
    poll_node()
    assert interface.received == pytest.approx(first + read_node_counter(), rel=0.01)


def test_concurrent_polls_count_traffic_once(running_instance, poll_node, advance_time, fault_at, monkeypatch):
    """Two schedulers are leader for a moment: the second polls before the first writes its counters."""
    interface = running_instance.interfaces[0]
    advance_time(minutes=10)
    real = node_sync.iter_batches
    polls = iter([poll_node])
    monkeypatch.setattr(node_sync, "iter_batches", lambda rows: (next(polls, str)(), real(rows))[1])
    poll_node()
    received = interface.received
    assert received == interface.counted_received > 0


# --- nodes


def test_silent_node_is_down_and_keeps_instance_states(cast, running_instance, node, poll_node):
    node.fault("*", "silent")
    poll_node()
    assert (cast.node.status, running_instance.state) == ("down", "running")
    assert "silent" in cast.node.status_detail
    assert service.get(cast.node.id).unschedulable_reason == "hypervisor_down"
    poll_node()
    node.clear()
    node.guest_powers_off(running_instance.id)
    poll_node()
    assert (cast.node.status, cast.node.status_detail, running_instance.state) == ("up", None, "stopped")


def test_overtaken_poll_failure_is_ignored(cast, running_instance, node, poll_node, fault_at):
    """A later poll had an answer from the node before the call of the first one fails."""
    polls = iter([poll_node])

    def poll_then_fail():
        for poll in polls:
            poll()
            node.fault("machines", "silent", 1)

    with fault_at("machines", then=poll_then_fail):
        poll_node()
    assert node.faults() == []
    assert cast.node.status == "up"


def test_unusable_storage_has_no_capacity_and_node_stays_up(cast, running_instance, node, poll_node):
    storage = service.create_storage(cast.node, name="second", path="/srv/second")
    session.commit()
    node.fault("prepare_pool", "refuse")
    node_sync.probe(cast.node.id)
    session.expire_all()
    assert cast.node.status == "up"
    assert "Storage second cannot be used" in cast.node.status_detail
    assert (storage.capacity, storage.free) == (0, 0)
    poll_node()
    assert "Storage second" in cast.node.status_detail
    node.clear()
    node_sync.probe(cast.node.id)
    session.expire_all()
    assert cast.node.status_detail is None
    assert storage.capacity > 0


def test_sync_of_removed_node_does_nothing(cast, fault_at, poll_node):
    node_sync.reconcile("00000000-0000-7000-8000-000000000000")
    node_sync.probe("00000000-0000-7000-8000-000000000000")
    assert session.get(Hypervisor, cast.node.id).status == "up"


@pytest.mark.parametrize("hypervisor_id", [None, "00000000-0000-7000-8000-000000000000"])
def test_connection_to_removed_node_is_refused(cast, hypervisor_id):
    with pytest.raises(NodeError) as caught:
        node_sync.connect_node(hypervisor_id)
    assert get_message(caught.value) == node_sync.HYPERVISOR_REMOVED_MESSAGE


def test_lock_of_removed_hypervisor_finds_no_row(cast, queries):
    queries.clear()
    assert claiming.lock_hypervisor(None) is None
    assert len(queries) == 0
    assert claiming.lock_hypervisor("00000000-0000-7000-8000-000000000000") is None
    assert claiming.lock_hypervisor(cast.node.id).id == cast.node.id


def test_poll_query_count_is_constant(
    cast, running_instance, request_deploy, run_tasks, poll_node, queries, monkeypatch
):
    """Each poll records a sample and rolls up, as one poll in every 15 and 60 seconds does."""
    monkeypatch.setattr(metrics, "SAMPLE_INTERVAL_SECONDS", 1e-4)
    monkeypatch.setattr(metrics, "ROLLUP_INTERVAL_SECONDS", 1e-4)
    poll_node()
    queries.clear()
    poll_node()
    query_count = len(queries)
    for _ in range(8):
        request_deploy()
    run_tasks()
    poll_node()
    queries.clear()
    poll_node()
    assert len(queries) == query_count


def test_paused_guest_is_reported_and_resumed_by_start(
    api_as, running_instance, node, poll_node, request_action, run_tasks, reload_task
):
    """QEMU pauses a guest when a storage is full: it counts as on, but does not run."""
    node.suspend(running_instance.id)
    poll_node()
    body = api_as("owner", "GET", f"/api/instance/{running_instance.id}").json
    assert (body["state"], "paused" in body["last_error"]) == ("running", True)
    task_id = api_as("owner", "POST", f"/api/instance/{running_instance.id}/power/start").json["task_id"]
    run_tasks()
    assert session.get(Task, task_id).status == "completed"
    assert node.power(running_instance.id) is Power.on
    poll_node()
    assert api_as("owner", "GET", f"/api/instance/{running_instance.id}").json["last_error"] is None
    assert "task_id" not in api_as("owner", "POST", f"/api/instance/{running_instance.id}/power/start").json


def test_pause_during_task_is_not_reported(running_instance, node, poll_node, request_action):
    request_action(running_instance, "restart")
    node.suspend(running_instance.id)
    poll_node()
    assert running_instance.last_error is None


def test_externally_resumed_guest_clears_error(running_instance, node, poll_node):
    node.suspend(running_instance.id)
    poll_node()
    assert running_instance.last_error
    node.resume(running_instance.id)
    poll_node()
    assert running_instance.last_error is None


def test_paused_guest_is_stopped_by_power_off(
    running_instance, node, poll_node, request_action, run_tasks, reload_task
):
    """It cannot react to a shutdown request, and a stop guarantees that the machine is off."""
    node.suspend(running_instance.id)
    poll_node()
    task = request_action(running_instance, "shutdown")
    run_tasks()
    assert (reload_task(task).status, "paused" in reload_task(task).error) == ("failed", True)
    task = request_action(running_instance, "stop")
    run_tasks()
    session.expire_all()
    assert (reload_task(task).status, running_instance.state, running_instance.last_error) == (
        "completed",
        "stopped",
        None,
    )
