"""Moving an instance to another plan: everything that the plan promises, or nothing."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Address, Hypervisor, MeteringRecord, Plan, Subnet, Task
from panel.services import catalog, instances, settings
from worker.nodes.base import GiB


@pytest.fixture
def plan(cast):
    """Makes another plan beside the cast's, larger where nothing else is said."""
    group = session.get(Plan, cast.plan.id).group

    def plan(name="L", **values):
        made = catalog.create_plan(
            group, name=name, **{"cpu_cores": 2, "ram": 1024, "storage": 20, "price": 9} | values
        )
        session.commit()
        return made

    return plan


@pytest.fixture
def machine(api_as, cast, run_tasks):
    instance = cast.instance()
    api_as(
        "owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id, "password": "x" * 9}
    )
    run_tasks()
    return instance


@pytest.fixture
def change(api_as, machine):
    def change(plan, who="owner"):
        path = f"/api{'/v1' if who == 'admin' else ''}/instance/{machine.id}/change-plan"
        return api_as(who, "POST", path, json={"plan_id": plan.id if plan else "nonsense"})

    return change


def guest_size(node, machine):
    """Cores and MiB that the running guest has."""
    import orjson

    (row,) = node.state.rows("SELECT live FROM machines WHERE id = ?", machine.id)
    live = orjson.loads(row["live"])
    return live["cpu_cores"], live["memory_mb"]


def size_of(node, machine):
    return next(disk.size for disk in node.disks("default") if disk.name == machine.disks[0].name) // GiB


def assert_refused(answer, reason=None):
    assert answer.status_code == 422
    assert list(answer.json["errors"]) == ["plan_id"]
    assert answer.json.get("reason") == reason
    return answer.json


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_the_disk_grows_at_once_and_the_rest_waits(change, api_as, plan, machine, run_tasks, node, who):
    """INS-81, INS-82"""
    large = plan()
    answer = change(large, who)
    assert answer.status_code == 200
    task_id = answer.json["task_id"] if who == "owner" else answer.json["data"]["task_id"]
    assert session.get(Task, task_id).lock == "exclusive"
    run_tasks()
    assert session.get(Task, task_id).status == "completed"
    assert size_of(node, machine) == 20
    assert guest_size(node, machine) == (1, 512)
    item = api_as("owner", "GET", f"/api/instance/{machine.id}").json
    assert (item["plan_id"], item["storage"], item["disks"][0]["size"]) == (large.id, 20, 20)
    assert (item["pending_cpu_cores"], item["pending_ram"]) == (2, 1024)
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/restart")
    run_tasks()
    assert guest_size(node, machine) == (2, 1024)
    item = api_as("owner", "GET", f"/api/instance/{machine.id}").json
    assert (item["state"], item["cpu_cores"], item["ram"]) == ("running", 2, 1024)
    assert (item["pending_cpu_cores"], item["pending_ram"]) == (None, None)


def test_the_speed_follows_at_once_and_needs_no_restart(change, plan, machine, run_tasks, node):
    change(plan("quick", cpu_cores=1, ram=512, storage=10, port_speed=50))
    run_tasks()
    [card] = node.nics_of(machine.id)
    assert (card["inbound_mbps"], card["outbound_mbps"]) == (50, 50)
    assert (machine.pending_cpu_cores, machine.pending_ram) == (None, None)
    tasks = session.scalars(select(Task.kind).where(Task.resource_id == machine.id)).all()
    change(plan("as quick", cpu_cores=1, ram=512, storage=10, port_speed=50))
    run_tasks()
    more = session.scalars(select(Task.kind).where(Task.resource_id == machine.id)).all()
    assert len(more) == len(tasks) + 1, "what stays the same is not told again"


def test_a_guest_that_turns_itself_off_comes_back_larger(change, plan, machine, run_tasks, node, api_as):
    change(plan())
    run_tasks()
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    run_tasks()
    assert machine.pending_ram is None
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/start")
    run_tasks()
    assert guest_size(node, machine) == (2, 1024)


def test_a_stopped_machine_has_nothing_to_wait_for(change, plan, machine, run_tasks, node, api_as):
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    run_tasks()
    change(plan())
    run_tasks()
    assert (machine.pending_cpu_cores, machine.pending_ram, size_of(node, machine)) == (None, None, 20)


def test_back_to_what_runs_needs_no_restart(change, plan, machine, run_tasks):
    change(plan("wide", storage=10))
    run_tasks()
    assert machine.pending_ram == 1024
    change(plan("as before", storage=10, cpu_cores=1, ram=512))
    run_tasks()
    assert (machine.pending_ram, machine.ram) == (None, 512)


def test_plans_that_cannot_be_had(change, plan, machine, run_tasks, node):
    """INS-79, INS-80, OP-10"""
    for wrong in (plan("off", enabled=False), plan("small", storage=5), None, machine.plan):
        for who in ("owner", "admin"):
            assert_refused(change(wrong, who))
    assert (machine.plan.name, machine.storage, size_of(node, machine)) == ("S", 10, 10)
    assert session.scalars(select(Task.kind).where(Task.kind == "instance_change_plan")).all() == []


@pytest.mark.parametrize("family", [4, 6])
def test_addresses_that_are_not_there(change, plan, machine, api_as, family):
    """INS-83, INS-84, INS-86: three times the same answer, and nothing moves."""
    subnet = session.scalar(select(Subnet).where(Subnet.family == family))
    subnet.enabled = False
    session.commit()
    wanted = plan(**{"ipv4": 2, "ipv6": 1} if family == 4 else {"ipv4": 2, "ipv6": 2})
    figures = lambda: api_as("admin", "GET", "/api/v1/subnets").json["data"]  # noqa: E731
    before = figures()
    answers = [assert_refused(change(wanted), f"plan_ipv{family}_unavailable") for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert figures() == before
    assert (machine.plan.name, len(machine.addresses), machine.storage) == ("S", 2, 10)


def test_addresses_that_come_with_the_plan(change, plan, machine, run_tasks):
    change(plan(ipv4=3, ipv6=2))
    run_tasks()
    assert sorted(address.family for address in machine.addresses) == [4, 4, 4, 6, 6]
    change(plan("XL", ipv4=1, ipv6=1, storage=30))
    run_tasks()
    assert len(machine.addresses) == 5
    assert session.scalar(select(Address).where(Address.ip == "10.9.0.4")).interface_id


def test_no_room_on_the_node(change, plan, machine, cast):
    assert_refused(change(plan("ram", ram=10**6)), "resources_not_sufficient")
    assert_refused(change(plan("cores", cpu_cores=512)), "resources_not_sufficient")
    assert_refused(change(plan("disk", storage=10**5)), "storage_not_sufficient")
    session.get(Hypervisor, cast.node.id).locked = True
    session.commit()
    assert change(plan("fits")).status_code == 200


def test_change_plan_changes_price(change, plan, machine, run_tasks):
    change(plan())
    run_tasks()
    prices = session.execute(
        select(MeteringRecord.plan, MeteringRecord.price, MeteringRecord.ended_at).order_by(MeteringRecord.id)
    ).all()
    assert [(name, float(price), ended is None) for name, price, ended in prices] == [("S", 4, False), ("L", 9, True)]


def test_a_node_that_fails_leaves_the_disk_as_it_was(change, plan, machine, run_tasks, node):
    large = plan()
    node.fault("grow_disk", "full", 1)
    change(large)
    run_tasks()
    assert (machine.plan_id, machine.storage, machine.disks[0].size, size_of(node, machine)) == (large.id, 10, 10, 10)
    change(large)
    run_tasks()
    assert (machine.storage, machine.disks[0].size, size_of(node, machine)) == (20, 20, 20)
    assert session.scalar(select(MeteringRecord.ended_at).order_by(MeteringRecord.id.desc())) is None


def test_when_it_cannot_be_done(change, plan, machine, api_as, run_tasks, cast):
    large = plan()
    fresh = cast.instance()
    assert api_as("owner", "POST", f"/api/instance/{fresh.id}/change-plan", json={"plan_id": large.id}).json[
        "reason"
    ] == ("not_deployed")
    session.add(Task(kind="x", resource_type="instance", resource_id=machine.id, lock="exclusive", status="running"))
    session.commit()
    assert change(large).json["reason"] == "task_running"
    assert machine.plan.name == "S"
    session.execute(Task.__table__.delete().where(Task.kind == "x"))
    instances.suspend(machine, reason="admin", actor="test")
    session.commit()
    run_tasks()
    assert change(large).json["reason"] == "suspended"
    assert change(large, "admin").status_code == 200


def test_a_live_session_holds_the_disk(change, plan, machine, api_as, run_tasks):
    api_as("owner", "POST", f"/api/instance/{machine.id}/forge/enable")
    run_tasks()
    answer = change(plan())
    assert (answer.status_code, answer.json["reason"]) == (409, "already_active")
    assert change(plan("no disk", storage=10)).status_code == 200


def test_change_plan_forbidden_to_customers(change, plan, machine):
    settings.update({"customers_change_plans": False})
    session.commit()
    assert change(plan()).status_code == 403
    settings.update({"customers_change_plans": True})
    machine.billing_mode = "external"
    session.commit()
    answer = change(session.scalar(select(Plan).where(Plan.name == "L")))
    assert (answer.status_code, "another system" in answer.json["message"]) == (403, True)
    assert change(session.scalar(select(Plan).where(Plan.name == "L")), "admin").status_code == 200


def test_change_plan_page(browser_as, plan, machine, run_tasks, node):
    large, small = plan(), plan("small", storage=5)
    owner, path = browser_as("owner"), f"/instances/{machine.id}/change-plan"
    page = owner.get(path).text
    assert "cannot be made smaller" in page
    assert large.id in page
    answer = owner.post(path, data={"plan_id": small.id})
    assert (answer.status_code, "cannot be made smaller" in answer.text) == (422, True)
    assert owner.post(path, data={"plan_id": large.id}).status_code == 303
    run_tasks()
    assert "Takes effect at next boot" in owner.get(f"/instances/{machine.id}").text
    assert size_of(node, machine) == 20
    assert browser_as("viewer").get(path).status_code == 403
