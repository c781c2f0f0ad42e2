"""Changing the plan of an instance: everything that the plan includes, or nothing."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Address, Hypervisor, MeteringRecord, Plan, Subnet, Task
from panel.services import catalog, instances, settings
from worker.nodes.base import GiB


@pytest.fixture
def make_plan(cast):
    """Return a function that creates a plan, larger than the cast's by default."""
    group = session.get(Plan, cast.plan.id).group

    def make_plan(name="L", **values):
        plan = catalog.create_plan(
            group, name=name, **{"cpu_cores": 2, "ram": 1024, "storage": 20, "price": 9} | values
        )
        session.commit()
        return plan

    return make_plan


@pytest.fixture
def machine(api_as, cast, run_tasks):
    instance = cast.instance()
    api_as(
        "owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id, "password": "x" * 9}
    )
    run_tasks()
    return instance


@pytest.fixture
def change_plan(api_as, machine):
    def change_plan(plan, caller="owner"):
        path = f"/api{'/v1' if caller == 'admin' else ''}/instance/{machine.id}/change-plan"
        return api_as(caller, "POST", path, json={"plan_id": plan.id if plan else "nonsense"})

    return change_plan


def get_guest_size(node, machine):
    """Return the cores and MiB of the running guest."""
    import orjson

    (row,) = node.state.rows("SELECT live FROM machines WHERE id = ?", machine.id)
    live = orjson.loads(row["live"])
    return live["cpu_cores"], live["memory_mb"]


def get_disk_size(node, machine):
    return next(disk.size for disk in node.disks("default") if disk.name == machine.disks[0].name) // GiB


def assert_refused(answer, reason=None):
    assert answer.status_code == 422
    assert list(answer.json["errors"]) == ["plan_id"]
    assert answer.json.get("reason") == reason
    return answer.json


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_plan_change_grows_disk_immediately_and_memory_at_restart(
    change_plan, api_as, make_plan, machine, run_tasks, node, caller
):
    """INS-81, INS-82"""
    large = make_plan()
    answer = change_plan(large, caller)
    assert answer.status_code == 200
    task_id = answer.json["task_id"] if caller == "owner" else answer.json["data"]["task_id"]
    assert session.get(Task, task_id).lock == "exclusive"
    run_tasks()
    assert session.get(Task, task_id).status == "completed"
    assert get_disk_size(node, machine) == 20
    assert get_guest_size(node, machine) == (1, 512)
    item = api_as("owner", "GET", f"/api/instance/{machine.id}").json
    assert (item["plan_id"], item["storage"], item["disks"][0]["size"]) == (large.id, 20, 20)
    assert (item["pending_cpu_cores"], item["pending_ram"]) == (2, 1024)
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/restart")
    run_tasks()
    assert get_guest_size(node, machine) == (2, 1024)
    item = api_as("owner", "GET", f"/api/instance/{machine.id}").json
    assert (item["state"], item["cpu_cores"], item["ram"]) == ("running", 2, 1024)
    assert (item["pending_cpu_cores"], item["pending_ram"]) == (None, None)


def test_plan_change_applies_port_speed_without_restart(change_plan, make_plan, machine, run_tasks, node):
    change_plan(make_plan("quick", cpu_cores=1, ram=512, storage=10, port_speed=50))
    run_tasks()
    [card] = node.get_nics(machine.id)
    assert (card["inbound_mbps"], card["outbound_mbps"]) == (50, 50)
    assert (machine.pending_cpu_cores, machine.pending_ram) == (None, None)
    tasks = session.scalars(select(Task.kind).where(Task.resource_id == machine.id)).all()
    change_plan(make_plan("as quick", cpu_cores=1, ram=512, storage=10, port_speed=50))
    run_tasks()
    kinds = session.scalars(select(Task.kind).where(Task.resource_id == machine.id)).all()
    assert len(kinds) == len(tasks) + 1, "an unchanged speed is not sent again"


def test_pending_size_applies_after_power_off_and_start(change_plan, make_plan, machine, run_tasks, node, api_as):
    change_plan(make_plan())
    run_tasks()
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    run_tasks()
    assert machine.pending_ram is None
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/start")
    run_tasks()
    assert get_guest_size(node, machine) == (2, 1024)


def test_plan_change_of_stopped_machine_has_nothing_pending(change_plan, make_plan, machine, run_tasks, node, api_as):
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    run_tasks()
    change_plan(make_plan())
    run_tasks()
    assert (machine.pending_cpu_cores, machine.pending_ram, get_disk_size(node, machine)) == (None, None, 20)


def test_plan_change_back_clears_pending_size(change_plan, make_plan, machine, run_tasks):
    change_plan(make_plan("wide", storage=10))
    run_tasks()
    assert machine.pending_ram == 1024
    change_plan(make_plan("as before", storage=10, cpu_cores=1, ram=512))
    run_tasks()
    assert (machine.pending_ram, machine.ram) == (None, 512)


def test_unavailable_plan_is_refused(change_plan, make_plan, machine, run_tasks, node):
    """INS-79, INS-80, OP-10"""
    for wrong in (make_plan("off", enabled=False), make_plan("small", storage=5), None, machine.plan):
        for caller in ("owner", "admin"):
            assert_refused(change_plan(wrong, caller))
    assert (machine.plan.name, machine.storage, get_disk_size(node, machine)) == ("S", 10, 10)
    assert session.scalars(select(Task.kind).where(Task.kind == "instance_change_plan")).all() == []


@pytest.mark.parametrize("family", [4, 6])
def test_plan_change_without_free_addresses_is_refused(change_plan, make_plan, machine, api_as, family):
    """INS-83, INS-84, INS-86: three requests get the same answer and change nothing."""
    subnet = session.scalar(select(Subnet).where(Subnet.family == family))
    subnet.enabled = False
    session.commit()
    plan = make_plan(**{"ipv4": 2, "ipv6": 1} if family == 4 else {"ipv4": 2, "ipv6": 2})
    list_subnets = lambda: api_as("admin", "GET", "/api/v1/subnets").json["data"]  # noqa: E731
    before = list_subnets()
    answers = [assert_refused(change_plan(plan), f"plan_ipv{family}_unavailable") for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert list_subnets() == before
    assert (machine.plan.name, len(machine.addresses), machine.storage) == ("S", 2, 10)


def test_plan_change_adds_but_never_removes_addresses(change_plan, make_plan, machine, run_tasks):
    change_plan(make_plan(ipv4=3, ipv6=2))
    run_tasks()
    assert sorted(address.family for address in machine.addresses) == [4, 4, 4, 6, 6]
    change_plan(make_plan("XL", ipv4=1, ipv6=1, storage=30))
    run_tasks()
    assert len(machine.addresses) == 5
    assert session.scalar(select(Address).where(Address.ip == "10.9.0.4")).interface_id


def test_plan_change_without_node_capacity_is_refused(change_plan, make_plan, machine, cast):
    assert_refused(change_plan(make_plan("ram", ram=10**6)), "resources_not_sufficient")
    assert_refused(change_plan(make_plan("cores", cpu_cores=512)), "resources_not_sufficient")
    assert_refused(change_plan(make_plan("disk", storage=10**5)), "storage_not_sufficient")
    session.get(Hypervisor, cast.node.id).locked = True
    session.commit()
    assert change_plan(make_plan("fits")).status_code == 200


def test_change_plan_changes_price(change_plan, make_plan, machine, run_tasks):
    change_plan(make_plan())
    run_tasks()
    prices = session.execute(
        select(MeteringRecord.plan, MeteringRecord.price, MeteringRecord.ended_at).order_by(MeteringRecord.id)
    ).all()
    assert [(name, float(price), ended is None) for name, price, ended in prices] == [("S", 4, False), ("L", 9, True)]


def test_failed_disk_growth_keeps_size_and_can_be_retried(change_plan, make_plan, machine, run_tasks, node):
    large = make_plan()
    node.fault("grow_disk", "full", 1)
    change_plan(large)
    run_tasks()
    assert (machine.plan_id, machine.storage, machine.disks[0].size, get_disk_size(node, machine)) == (
        large.id,
        10,
        10,
        10,
    )
    change_plan(large)
    run_tasks()
    assert (machine.storage, machine.disks[0].size, get_disk_size(node, machine)) == (20, 20, 20)
    assert session.scalar(select(MeteringRecord.ended_at).order_by(MeteringRecord.id.desc())) is None


def test_change_plan_refused_by_state(change_plan, make_plan, machine, api_as, run_tasks, cast):
    large = make_plan()
    fresh = cast.instance()
    assert api_as("owner", "POST", f"/api/instance/{fresh.id}/change-plan", json={"plan_id": large.id}).json[
        "reason"
    ] == ("not_deployed")
    session.add(Task(kind="x", resource_type="instance", resource_id=machine.id, lock="exclusive", status="running"))
    session.commit()
    assert change_plan(large).json["reason"] == "task_running"
    assert machine.plan.name == "S"
    session.execute(Task.__table__.delete().where(Task.kind == "x"))
    instances.suspend(machine, reason="admin", actor="test")
    session.commit()
    run_tasks()
    assert change_plan(large).json["reason"] == "suspended"
    assert change_plan(large, "admin").status_code == 200


def test_live_snapshot_session_blocks_disk_growth(change_plan, make_plan, machine, api_as, run_tasks):
    api_as("owner", "POST", f"/api/instance/{machine.id}/forge/enable")
    run_tasks()
    answer = change_plan(make_plan())
    assert (answer.status_code, answer.json["reason"]) == (409, "already_active")
    assert change_plan(make_plan("no disk", storage=10)).status_code == 200


def test_change_plan_forbidden_to_customers(change_plan, make_plan, machine):
    settings.update({"customers_change_plans": False})
    session.commit()
    assert change_plan(make_plan()).status_code == 403
    settings.update({"customers_change_plans": True})
    machine.billing_mode = "external"
    session.commit()
    answer = change_plan(session.scalar(select(Plan).where(Plan.name == "L")))
    assert (answer.status_code, "another system" in answer.json["message"]) == (403, True)
    assert change_plan(session.scalar(select(Plan).where(Plan.name == "L")), "admin").status_code == 200


def test_change_plan_page(browser_as, make_plan, machine, run_tasks, node):
    large, small = make_plan(), make_plan("small", storage=5)
    owner, path = browser_as("owner"), f"/instances/{machine.id}/change-plan"
    page = owner.get(path).text
    assert "cannot be made smaller" in page
    assert large.id in page
    answer = owner.post(path, data={"plan_id": small.id})
    assert (answer.status_code, "cannot be made smaller" in answer.text) == (422, True)
    assert owner.post(path, data={"plan_id": large.id}).status_code == 303
    run_tasks()
    assert "Takes effect at next boot" in owner.get(f"/instances/{machine.id}").text
    assert get_disk_size(node, machine) == 20
    assert browser_as("viewer").get(path).status_code == 403
