"""Warm pools: filling them, taking members, and throwing members away."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Event, Hypervisor, MeteringRecord, Microvm, MicrovmPool, MicrovmPoolMember, Task
from panel.services import hypervisor_removal, hypervisors
from panel.services.microvms import pool_members, pools, profiles
from tests.support.microvms import register_image
from worker.nodes.base import NotOnNode, Power
from worker.sync import node_sync
from worker.tasks import microvm_pools as tasks


def list_members(state=None):
    session.expire_all()
    query = session.query(MicrovmPoolMember).order_by(MicrovmPoolMember.id)
    return (query.filter_by(state=state) if state else query).all()


def test_pool_is_filled_one_boot_at_a_time(pool, refill, node, names_on_node):
    for count in (1, 2):
        tasks.refill()
        tasks.refill()
        assert [member.state for member in list_members()] == ["ready"] * (count - 1) + ["booting"]
        refill()
    refill()
    members = list_members("ready")
    assert names_on_node() == ({member.id for member in members}, {member.disk_name for member in members})
    assert len(members) == 2
    assert all(node.has_saved_state(member.id) and node.power(member.id) is Power.off for member in members)


def test_create_takes_a_member_and_the_pool_is_refilled(filled_pool, create_microvm, node, refill, cast, monkeypatch):
    first = list_members("ready")[0]
    machine, disk, mac = first.id, first.disk_name, first.mac
    defined = []
    monkeypatch.setattr(type(node), "define", lambda self, spec: defined.append(spec.id))
    microvm = create_microvm()
    assert (microvm.id, microvm.disk_name, microvm.mac, microvm.state) == (machine, disk, mac, "running")
    assert (microvm.hypervisor_id, microvm.storage.hypervisor_id) == (cast.node.id, cast.node.id)
    assert (node.power(machine), node.has_saved_state(machine), defined) == (Power.on, False, [])
    assert len(list_members()) == 1
    monkeypatch.undo()


def test_pool_is_refilled_after_a_create(filled_pool, create_microvm, refill):
    create_microvm()
    refill()
    assert len(list_members("ready")) == 2


def test_microvms_have_different_identities(filled_pool, create_microvm):
    rows = [create_microvm() for _ in range(2)]
    for name in ("id", "sandbox_id", "mac", "access_token", "disk_name"):
        assert len({getattr(row, name) for row in rows}) == 2
    assert all(len(row.access_token) == 64 for row in rows)


def test_newest_microvm_is_listed_first(pool, refill, create_microvm, call_api):
    """Its id is older than that of one that was created before."""
    refill()
    member = list_members("ready")[0]
    cold, warm = create_microvm(cpu_cores=2), create_microvm()
    assert (warm.id, warm.id < cold.id) == (member.id, True)
    assert [row["id"] for row in call_api("GET", "vms").json["data"]] == [warm.id, cold.id]


@pytest.mark.parametrize("size", [{"cpu_cores": 2}, {"memory_mb": 1024}, {"disk_gb": 4}])
def test_other_size_is_created_cold(filled_pool, create_microvm, size):
    assert create_microvm(**size).state == "running"
    assert len(list_members("ready")) == 2


def test_empty_pool_is_no_obstacle(pool, create_microvm):
    assert create_microvm().state == "running"


def test_member_that_cannot_be_started_is_replaced_by_a_new_machine(filled_pool, create_microvm, node, names_on_node):
    member = list_members("ready")[0]
    node.fault("start", "refuse", 1)
    microvm = create_microvm()
    assert (microvm.id, microvm.state, node.power(microvm.id)) == (member.id, "running", Power.on)
    others = list_members("ready")
    assert names_on_node()[1] == {microvm.disk_name, *(other.disk_name for other in others)}


def test_member_that_the_node_lost_is_replaced_by_a_new_machine(filled_pool, create_microvm, node):
    node.delete(list_members("ready")[0].id)
    assert create_microvm().state == "running"


def test_members_count_for_capacity_only(pool, refill, cast, api_as):
    def read_allocation():
        session.expire_all()
        host = session.get(Hypervisor, cast.node.id)
        return host.allocated_cpu_cores, host.allocated_ram, host.allocated_storage

    before = read_allocation()
    tasks.refill()
    booting = read_allocation()
    assert [now - then for now, then in zip(booting, before, strict=True)] == [1, 512, 2]
    refill()
    pools.resize(pool, 1)
    assert [now - then for now, then in zip(read_allocation(), before, strict=True)] == [0, 0, 2]
    assert profiles.count_usage([cast.node.id]) == {}
    assert api_as("owner", "GET", "/api/microvm/vms").json["total"] == 0
    assert api_as("admin", "GET", "/api/v1/microvm/vms").json["data"] == []
    assert api_as("owner", "GET", "/api/tasks").json["total"] == 0
    assert session.query(Event).count() == session.query(MeteringRecord).count() == session.query(Microvm).count() == 0


def test_taken_member_needs_memory_of_its_node(filled_pool, call_api, microvm_body, cast):
    host = session.get(Hypervisor, cast.node.id)
    host.memory_mb = host.allocated_ram + 100
    session.commit()
    assert call_api("POST", "vms", **microvm_body).status_code == 422
    assert len(list_members("ready")) == 2


def test_profile_limit_holds_for_members(filled_pool, profile, call_api, microvm_body):
    profiles.update(profile, max_memory_mb=600)
    session.commit()
    assert [call_api("POST", "vms", **microvm_body).status_code for _ in range(2)] == [200, 422]


def empty_pool(pool, profile):
    pools.resize(pool, 0)


def delete_pool(pool, profile):
    pools.delete(pool)


def delete_profile(pool, profile):
    profiles.delete(profile)


def turn_profile_off(pool, profile):
    profiles.update(profile, enabled=False)


def allow_internet_access(pool, profile):
    """The machine gets a network interface."""
    profiles.update(profile, allows_internet_access=True)


def build_image_again(pool, profile):
    register_image(version=b"2")


def make_image_larger(pool, profile):
    register_image(memory_mb=1024)


def delete_image(pool, profile):
    session.delete(pool.image)


CHANGES = (
    empty_pool,
    delete_pool,
    delete_profile,
    turn_profile_off,
    allow_internet_access,
    build_image_again,
    make_image_larger,
    delete_image,
)


@pytest.mark.parametrize("change", CHANGES)
def test_members_that_are_of_no_use_are_removed(filled_pool, profile, refill, names_on_node, change):
    before = {member.id for member in list_members("ready")}
    change(filled_pool, profile)
    session.commit()
    refill()
    machines, disks = names_on_node()
    assert machines.isdisjoint(before)
    assert (machines, disks) == ({row.id for row in list_members()}, {row.disk_name for row in list_members()})
    left = 1 if change in (allow_internet_access, build_image_again, make_image_larger) else 0
    assert len(list_members("ready")) == left


@pytest.mark.parametrize("change", [build_image_again, make_image_larger, turn_profile_off])
def test_member_of_no_use_is_not_taken(filled_pool, profile, call_api, microvm_body, run_tasks, change):
    """The periodic job has not run yet."""
    change(filled_pool, profile)
    session.commit()
    answer = call_api("POST", "vms", **microvm_body)
    assert answer.status_code == (422 if change is turn_profile_off else 200)
    run_tasks()
    assert len(list_members("ready")) == 2


def test_boot_of_a_member_that_is_not_needed_ends(pool, run_tasks, names_on_node, fault_at):
    def delete():
        session.delete(session.get(MicrovmPool, pool.id))
        session.commit()
        tasks.refill()

    tasks.refill()
    with fault_at("open_channel", then=delete):
        run_tasks()
    tasks.refill()
    run_tasks()
    assert (names_on_node(), list_members()) == ((set(), set()), [])


def test_failed_boot_is_shown_and_repeated_later(pool, refill, node, names_on_node, api_as):
    node.fault("start", "full", 1)
    refill()
    refill()
    assert (names_on_node(), list_members()) == ((set(), set()), [])
    row = api_as("admin", "GET", f"/api/v1/microvm/pool/{pool.id}").json["data"]
    assert (row["ready"], row["booting"], bool(row["error"]), bool(row["next_boot_at"])) == (0, 0, True, True)
    pool.next_boot_at = clock.now() - timedelta(seconds=1)
    session.commit()
    refill()
    row = api_as("admin", "GET", f"/api/v1/microvm/pool/{pool.id}").json["data"]
    assert (row["ready"], row["error"], row["next_boot_at"]) == (1, None, None)


def test_pauses_between_failed_boots_grow(pool):
    pauses = []
    for _ in range(12):
        pool_members.record_failure(pool, "no")
        pauses.append(round((pool.next_boot_at - clock.now()).total_seconds()))
    assert (pauses[:3], pauses[-1]) == ([10, 20, 40], 3600)


def ignore_host(channel):
    while channel.recv(4096):
        pass


def test_guest_that_does_not_answer_fails_the_boot(pool, refill, monkeypatch, names_on_node):
    monkeypatch.setattr(tasks, "GUEST_START_SECONDS", 0.1)
    monkeypatch.setattr("worker.nodes.simulated.SimulatedNode.serve_channel", staticmethod(ignore_host))
    refill()
    session.refresh(pool)
    assert (str(pool.error), names_on_node()) == ("The guest did not become ready in time.", (set(), set()))


def test_node_without_room_boots_nothing(pool, refill, cast):
    host = session.get(Hypervisor, cast.node.id)
    host.memory_mb = 100
    session.commit()
    refill()
    session.refresh(pool)
    assert (list_members(), "no room" in pool.error) == ([], True)


@pytest.mark.parametrize("field", ["locked", "maintenance", "deploy_enabled"])
def test_closed_node_boots_nothing(pool, refill, cast, field):
    setattr(session.get(Hypervisor, cast.node.id), field, field != "deploy_enabled")
    session.commit()
    refill()
    assert list_members() == []


def test_members_are_no_unmanaged_machines(filled_pool, cast, api_as, run_tasks):
    node_sync.reconcile(cast.node.id)
    host = session.get(Hypervisor, cast.node.id)
    assert host.unmanaged_machines == []
    assert len(list_members("ready")) == 2
    member = list_members()[0]
    host.unmanaged_machines = [{"id": member.id, "name": member.node_name}]
    session.commit()
    path = f"/api/v1/hypervisor/{cast.node.id}/orphan/{member.id}/remove"
    assert api_as("admin", "POST", path, json={"name": member.node_name}).status_code == 200
    run_tasks()
    assert session.query(Task).filter_by(kind="hypervisor_remove_orphan").one().status == "failed"
    assert len(list_members("ready")) == 2


@pytest.mark.parametrize("call", ["start", "delete"])
def test_member_that_is_not_saved_any_more_is_replaced(filled_pool, cast, node, refill, call):
    lost = list_members("ready")[0].id
    getattr(node, call)(lost)
    node_sync.reconcile(cast.node.id)
    refill()
    refill()
    assert lost not in {member.id for member in list_members("ready")}
    with pytest.raises(NotOnNode):
        node.power(lost)


def test_hypervisor_with_members_is_not_removed(filled_pool, cast, api_as, refill):
    storage = hypervisors.get(cast.node.id).storages[0]
    assert api_as("admin", "DELETE", f"/api/v1/hypervisor/storage/{storage.id}").status_code == 409
    answer = api_as("admin", "DELETE", f"/api/v1/hypervisor/{cast.node.id}")
    assert (answer.status_code, "warm pool" in answer.json["message"]) == (409, True)
    api_as("admin", "DELETE", f"/api/v1/microvm/pool/{filled_pool.id}")
    refill()
    assert api_as("admin", "DELETE", f"/api/v1/hypervisor/{cast.node.id}").status_code == 200


def test_force_removal_of_the_node_ends_members(filled_pool, cast):
    host = session.get(Hypervisor, cast.node.id)
    host.status = "down"
    session.commit()
    hypervisor_removal.force_remove(host, name="node-1", actor="test")
    session.commit()
    assert (list_members(), session.query(MicrovmPool).count()) == ([], 0)


def test_node_that_is_down_is_left_alone(filled_pool, profile, cast, refill):
    session.get(Hypervisor, cast.node.id).status = "down"
    profiles.update(profile, enabled=False)
    session.commit()
    refill()
    assert len(list_members("ready")) == 2
