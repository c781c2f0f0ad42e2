"""States of micro VMs follow the node, and nothing of the panel takes them for instances."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance, InstanceMetric, Microvm
from panel.services import hypervisor_removal
from tests.support.microvms import register_image
from worker.nodes.base import Power
from worker.sync import image_copies, node_sync


def poll(cast):
    node_sync.reconcile(cast.node.id)
    session.expire_all()


def test_microvm_that_turned_itself_off_is_stopped(microvm, node, cast, reload):
    node.power_off(microvm.id)
    poll(cast)
    assert (reload(microvm).state, str(microvm.error)) == ("stopped", "The micro VM turned itself off.")


def test_microvm_that_the_node_lost_is_stopped(microvm, node, cast, reload, call_api, run_tasks):
    node.delete(microvm.id)
    poll(cast)
    assert (reload(microvm).state, "does not have" in microvm.error) == ("stopped", True)
    call_api("POST", f"vm/{microvm.id}/start")
    run_tasks()
    assert (reload(microvm).state, microvm.error) == ("running", None)


@pytest.mark.parametrize(
    ("before", "is_saved", "expected"), [("stopped", False, "running"), ("running", True, "paused")]
)
def test_state_follows_the_node_after_lost_answers(microvm, node, cast, reload, before, is_saved, expected):
    microvm.state = before
    session.commit()
    if is_saved:
        node.save(microvm.id)
    poll(cast)
    assert reload(microvm).state == expected


@pytest.mark.parametrize(("is_on", "expected"), [(True, "running"), (False, "stopped")])
def test_state_whose_task_was_lost_is_corrected(microvm, node, cast, reload, is_on, expected):
    microvm.state = "pausing"
    session.commit()
    if not is_on:
        node.power_off(microvm.id)
    poll(cast)
    assert reload(microvm).state == expected


def test_state_during_a_task_is_left_alone(microvm, node, cast, reload, call_api):
    call_api("POST", f"vm/{microvm.id}/stop")
    node.power_off(microvm.id)
    poll(cast)
    assert reload(microvm).state == "stopping"


def test_report_that_is_older_than_the_state_is_ignored(microvm, node, cast, reload, fault_at):
    """The state changes while the node answers."""

    def change_state():
        row = reload(microvm)
        row.state_changed_at = row.state_changed_at.replace(year=row.state_changed_at.year + 1)
        session.commit()

    node.power_off(microvm.id)
    with fault_at("machines", change_state):
        node_sync.reconcile(cast.node.id)
    assert reload(microvm).state == "running"


@pytest.mark.parametrize("power", [Power.off, None])
def test_event_of_the_node_stops_microvm(microvm, node, cast, reload, power):
    node.power_off(microvm.id)
    if power is None:
        node.delete(microvm.id)
    node_sync.on_power_event(cast.node.id, microvm.id, power)
    assert reload(microvm).state == "stopped"


def test_late_event_changes_nothing(microvm, cast, reload):
    node_sync.on_power_event(cast.node.id, microvm.id, Power.off)
    assert reload(microvm).state == "running"


def test_microvm_is_no_unmanaged_machine_and_no_instance(microvm, cast):
    poll(cast)
    assert session.get(Hypervisor, cast.node.id).unmanaged_machines == []
    assert (session.query(Instance).count(), session.query(InstanceMetric).count()) == (0, 0)


def test_poll_takes_constant_number_of_queries(create_microvm, cast, queries):
    counts = []
    for _ in range(2):
        create_microvm()
        poll(cast)
        queries.clear()
        poll(cast)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_many_changes_take_a_constant_number_of_queries(create_microvm, node, cast, queries):
    counts = []
    for number in (1, 6):
        microvms = [create_microvm() for _ in range(number)]
        for microvm in microvms:
            node.power_off(microvm.id)
        queries.clear()
        poll(cast)
        # Without those of the node itself, which depend on the time.
        counts.append(len([query for query in queries if "microvms" in query and not query.startswith("UPDATE")]))
        assert {session.get(Microvm, microvm.id).state for microvm in microvms} == {"stopped"}
    assert counts[1] <= counts[0] + 1  # a row that is not in memory any more may be read again


def test_force_removal_of_the_node_ends_microvms(microvm, cast, reload):
    hypervisor = session.get(Hypervisor, cast.node.id)
    hypervisor.status = "down"
    session.commit()
    hypervisor_removal.force_remove(hypervisor, name="node-1", actor="test")
    session.commit()
    row = reload(microvm)
    assert (row.ended_at is not None, row.hypervisor_id, row.storage_id) == (True, None, None)


def test_image_files_are_removed_when_no_image_needs_them(microvm, node, cast, request_action, run_tasks, image):
    def list_files():
        return {disk.name for disk in node.disks("default") if disk.name.startswith(old_key)}

    old_key = image.files_key
    expected = {f"{old_key}.{ending}" for ending in ("qcow2", "kernel", "initrd")}
    assert list_files() == expected
    register_image(version=b"2")
    image_copies.sweep_node(cast.node.id)
    assert list_files() == expected
    request_action(microvm, "destroy")
    run_tasks()
    image_copies.sweep_node(cast.node.id)
    assert list_files() == set()
