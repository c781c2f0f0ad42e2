"""Import of unmanaged machines as instances."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Address, AuditEntry, Event, Hypervisor, MeteringRecord, Subnet
from panel.services import catalog, subnets
from tests.support.machine_imports import (  # noqa: F401  (fixtures)
    IP,
    MAC,
    UNMANAGED_ID,
    discover,
    discovered_machine,
    import_machine,
    load_imported_instance,
    path,
    unmanaged_machine,
    wait_for_task,
)
from tests.support.pseudo_language import bracket, pseudo_language  # noqa: F401
from worker.nodes.base import Disk, GiB, Machine, Nic, Power
from worker.sync import node_sync


def test_discovery_describes_unmanaged_machine(discovered_machine):
    [machine] = discovered_machine["unknown"]
    assert (machine["id"], machine["name"], machine["power"]) == (UNMANAGED_ID, "old-web", "off")
    assert (machine["cpu_cores"], machine["memory_mb"], machine["tpm"], machine["secure_boot"]) == (
        1,
        300,
        False,
        False,
    )
    assert [(disk["device"], disk["storage"], disk["name"], disk["size"]) for disk in machine["disks"]] == [
        ("vda", "default", "old-web.qcow2", 6),
        ("vdb", "default", "old-data.qcow2", 7),
    ]
    assert machine["nics"] == [{"mac": MAC, "network": "br0", "addresses": [IP, "fe80::1"]}]
    assert machine["obstacles"] == []


def test_imported_machine_behaves_like_instance(
    api_as, import_machine, discovered_machine, node, cast, run_tasks, path
):
    answer = import_machine(display_name="Shop")
    assert answer.json["data"]["instance_id"] == UNMANAGED_ID
    assert wait_for_task(answer, run_tasks).status == "completed"
    instance = load_imported_instance()
    assert (instance.display_name, instance.state, instance.account_id) == ("Shop", "stopped", cast.owner.id)
    assert (instance.cpu_cores, instance.ram, instance.storage) == (cast.plan.cpu_cores, cast.plan.ram, 6)
    assert [(disk.name, disk.size, disk.position) for disk in instance.disks] == [
        ("old-web.qcow2", 6, 0),
        ("old-data.qcow2", 7, 1),
    ]
    assert (instance.interfaces[0].mac, [address.ip for address in instance.addresses]) == (MAC, [IP])
    assert instance.ipv4 == IP
    assert (
        session.scalar(select(MeteringRecord).where(MeteringRecord.resource_id == UNMANAGED_ID)).price
        == cast.plan.price
    )
    assert session.scalar(select(Event).where(Event.resource_id == UNMANAGED_ID)).kind == "instance.created"
    assert node.get_definition(UNMANAGED_ID)[0] == instance.name
    assert node.get_nics(UNMANAGED_ID)[0] == {**node.get_nics(UNMANAGED_ID)[0], "mac": MAC, "addresses": [IP]}
    assert session.get(Hypervisor, cast.node.id, populate_existing=True).unmanaged_machines == []
    node_sync.reconcile(cast.node.id)
    assert session.get(Hypervisor, cast.node.id, populate_existing=True).unmanaged_machines == []
    assert import_machine().status_code == 404  # it is no longer unmanaged

    own = f"/api/instance/{UNMANAGED_ID}"
    for doing in ("power/start", "reset-password", "power/stop"):
        assert api_as("owner", "POST", f"{own}/{doing}").status_code in (200, 202), doing
        run_tasks()
    node.revert_import(UNMANAGED_ID)  # no effect after the redefinition
    assert node.get_definition(UNMANAGED_ID)[0] == instance.name
    snapshot_answer = api_as("owner", "POST", f"{own}/snapshot", json={"snapname": "one"})
    assert snapshot_answer.status_code in (200, 202), snapshot_answer.text
    run_tasks()
    api_as("owner", "POST", f"{own}/power/start")
    run_tasks()
    assert api_as("owner", "GET", own).json["state"] == "running"
    assert api_as("outsider", "GET", own).status_code == 404


def test_imported_instance_deletion_removes_only_its_disks(api_as, import_machine, discovered_machine, node, run_tasks):
    """A file with the name that its seed would have is kept."""
    node.create_disk(Disk("default", "old-web.iso", GiB))
    wait_for_task(import_machine(), run_tasks)
    api_as("admin", "DELETE", f"/api/v1/instance/{UNMANAGED_ID}")
    run_tasks()
    assert load_imported_instance() is None
    assert node.machines() == []
    assert {disk.name for disk in node.disks("default")} == {"theirs.qcow2", "old-web.iso"}
    assert session.scalar(select(Address.interface_id).where(Address.ip == IP)) is None


def test_reinstall_replaces_imported_system(api_as, import_machine, discovered_machine, node, cast, run_tasks):
    wait_for_task(import_machine(), run_tasks)
    assert node.seed_of(UNMANAGED_ID) is None
    answer = api_as("owner", "POST", f"/api/instance/{UNMANAGED_ID}/reinstall", json={"image_id": cast.image.id})
    assert answer.status_code in (200, 202), answer.text
    run_tasks()
    instance = load_imported_instance()
    assert (instance.state, instance.disks[0].name.startswith(f"{instance.name}-0")) == ("running", True)
    assert node.seed_of(UNMANAGED_ID) is not None
    assert "old-web.qcow2" not in {disk.name for disk in node.disks("default")}


def test_import_is_audited(api_as, import_machine, discovered_machine, run_tasks):
    wait_for_task(import_machine(), run_tasks)
    entry = session.scalar(select(AuditEntry).where(AuditEntry.action.contains("import_orphan")))
    assert entry.changes["task"] == "hypervisor_adopt"


# --- plan, owner and addresses


def test_import_refuses_too_small_plan(import_machine, discovered_machine, node, cast):
    before = node.get_definition(UNMANAGED_ID)
    for fact, size in (("cpu_cores", 0), ("ram", 299), ("storage", 5)):
        values = {"cpu_cores": 1, "ram": 512, "storage": 10, "bandwidth": 0, "price": 1, fact: size}
        small = catalog.create_plan(cast.plan.group, name=f"less {fact}", **values)
        session.commit()
        answer = import_machine(plan_id=small.id)
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {"plan_id"}), fact
    assert import_machine(plan_id=UNMANAGED_ID).status_code == 422
    assert import_machine(user_id=UNMANAGED_ID).json["errors"].keys() == {"user_id"}
    assert (load_imported_instance(), node.get_definition(UNMANAGED_ID)) == (None, before)


@pytest.mark.parametrize(
    ("ip", "reason"),
    [
        ("192.0.2.9", "is in no subnet"),
        ("10.9.0.1", "is never assigned"),
        ("fd99::1", "is never assigned"),
        ("10.9.0.50", "is reserved"),
    ],
)
def test_import_refuses_unavailable_address(import_machine, discovered_machine, ip, reason):
    session.scalar(select(Address).where(Address.ip == "10.9.0.50")).reserved = True
    session.commit()
    answer = import_machine(ips=[ip])
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ips"])
    assert reason in answer.json["errors"]["ips"][0]


def test_import_refuses_address_of_other_instance(import_machine, discovered_machine, cast):
    other = cast.instance()
    assert f"is in use by {other.name}" in import_machine(ips=[other.ipv4]).json["errors"]["ips"][0]
    session.scalar(select(Address).where(Address.ip == IP)).interface_id = other.interfaces[0].id
    session.commit()
    assert "is in use" in import_machine().json["errors"]["ips"][0]  # the address that the guest reported


def test_import_requires_ips_when_addresses_are_unknown(import_machine, unmanaged_machine, discover, run_tasks):
    discover()
    assert "not known" in import_machine().json["errors"]["ips"][0]
    wait_for_task(import_machine(ips=[]), run_tasks)
    assert (load_imported_instance().addresses, load_imported_instance().ipv4) == ([], None)


def test_imported_ipv6_address_is_not_allocated_again(import_machine, discovered_machine, cast, run_tasks):
    group = session.scalar(select(Subnet).where(Subnet.name == "v6")).group
    [first] = subnets.allocate(group, 6, 1)
    session.commit()
    taken = first.ip.replace(first.ip.rpartition(":")[2], f"{int(first.ip.rpartition(':')[2], 16) + 1:x}")
    wait_for_task(import_machine(ips=[taken, IP]), run_tasks)
    assert (load_imported_instance().ipv6, load_imported_instance().ipv4) == (taken, IP)
    following = [address.ip for address in subnets.allocate(group, 6, 3)]
    assert first.ip in following
    assert taken not in following
    assert len(set(following)) == 3


# --- the state and hardware of the machine


def test_running_machine_is_not_imported(import_machine, unmanaged_machine, node, discover, run_tasks):
    node.start(UNMANAGED_ID)
    discover()
    answer = import_machine(ips=[IP])
    assert (answer.status_code, answer.json["reason"]) == (409, "not_stopped")
    node.power_off(UNMANAGED_ID)
    discover()
    import_answer = import_machine(ips=[IP])
    node.start(UNMANAGED_ID)  # before the task runs
    before = node.get_definition(UNMANAGED_ID)
    assert "runs" in wait_for_task(import_answer, run_tasks).error
    assert (load_imported_instance(), node.power(UNMANAGED_ID), node.get_definition(UNMANAGED_ID)) == (
        None,
        Power.on,
        before,
    )


def test_import_requires_discovery(import_machine, unmanaged_machine, cast, api_as, path):
    node_sync.reconcile(cast.node.id)
    assert (import_machine().status_code, import_machine().json["reason"]) == (409, "not_discovered")
    assert import_machine("nothing").status_code == 404
    assert (
        api_as("admin", "POST", f"/api/v1/hypervisor/{UNMANAGED_ID}/orphan/import/old-web", json={}).status_code == 422
    )


def test_unsupported_features_block_import(import_machine, unmanaged_machine, node, discover):
    node.make_unimportable(UNMANAGED_ID, "It has snapshots. Delete them first.")
    node.make_unimportable(UNMANAGED_ID, "is raw, and has to be qcow2", device="vdb")
    [machine] = discover()["unknown"]
    assert machine["obstacles"] == [
        "It has snapshots. Delete them first.",
        "Its disk vdb (old-data.qcow2) is raw, and has to be qcow2.",
    ]
    answer = import_machine(ips=[])
    assert (answer.status_code, answer.json["reason"]) == (409, "not_adoptable")
    assert "vdb (old-data.qcow2) is raw" in answer.json["message"]


def test_blocking_issues_are_translated_on_pages(unmanaged_machine, cast, discover, browser_as, pseudo_language):
    cast.instance().disks[0].name = "old-web.qcow2"
    session.commit()
    [machine] = discover()["unknown"]
    error = "has the name of a disk that the panel has: rename its file"
    assert machine["obstacles"] == [f"Its disk vda (old-web.qcow2) {error}."]
    page = browser_as("admin").get(f"/admin/hypervisors/{cast.node.id}/orphans", headers=pseudo_language).text
    assert bracket(f"Its disk vda (old-web.qcow2) {bracket(error)}.") in page


def test_disk_outside_storages_blocks_import(import_machine, node, cast, discover):
    node.prepare_pool("scratch", "/srv/scratch")
    node.create_disk(Disk("scratch", "far.qcow2", GiB))
    twice = (Nic(MAC, "br0"), Nic("52:54:00:aa:bb:cd", "br0"))
    node.define(Machine(UNMANAGED_ID, "old-web", 1, 300, (Disk("scratch", "far.qcow2", GiB),), twice))
    [machine] = discover()["unknown"]
    assert "is in no storage of the hypervisor" in machine["obstacles"][0]
    assert "2 network cards" in machine["obstacles"][1]
    assert import_machine(ips=[]).status_code == 409
    node.delete(UNMANAGED_ID)
    node.delete_disk("scratch", "far.qcow2")


def test_duplicate_disk_name_or_mac_blocks_import(import_machine, discovered_machine, node, cast, discover):
    other = cast.instance()
    other.interfaces[0].mac = MAC
    other.disks[0].name = "old-web.qcow2"
    session.commit()
    [machine] = discover()["unknown"]
    assert "has the name of a disk that the panel has" in machine["obstacles"][0]
    assert MAC in machine["obstacles"][1]
    assert import_machine().status_code == 409


def test_import_requires_capacity_and_reachable_hypervisor(import_machine, discovered_machine, cast):
    node = session.get(Hypervisor, cast.node.id)
    node.memory_mb = 100
    session.commit()
    assert (import_machine().status_code, import_machine().json["reason"]) == (422, "resources_not_sufficient")
    node.memory_mb, node.status = 100_000, "down"
    session.commit()
    assert (import_machine().status_code, import_machine().json["reason"]) == (503, "hypervisor_unreachable")


def test_second_import_is_refused_while_first_runs(import_machine, discovered_machine, run_tasks):
    answer = import_machine()
    again = import_machine(ips=[])
    assert (again.status_code, again.json["reason"]) == (409, "task_running")
    assert wait_for_task(answer, run_tasks).status == "completed"


# --- the page


def test_import_page_shows_and_imports_machine(browser_as, cast, discovered_machine, node, run_tasks):
    operator, page = browser_as("admin"), f"/admin/hypervisors/{cast.node.id}/orphans"
    shown = operator.get(page).text
    for text in ("old-web.qcow2", "7 GiB", MAC, IP, f"{UNMANAGED_ID}/import"):
        assert text in shown, text
    form = operator.get(f"{page}/{UNMANAGED_ID}/import").text
    assert IP in form
    assert "fe80::1" not in form.partition('id="form"')[2]  # not an address of the location
    form_data = {"owner": "nobody@example.com", "plan_id": cast.plan.id, "display_name": "Shop", "ips": IP}
    refused = operator.post(f"{page}/{UNMANAGED_ID}/import", data=form_data)
    assert (refused.status_code, "No account has this email address" in refused.text) == (422, True)
    sent = operator.post(f"{page}/{UNMANAGED_ID}/import", data={**form_data, "owner": cast.owner.email})
    assert (sent.status_code, "/admin/tasks/" in sent.location) == (303, True)
    run_tasks()
    assert (load_imported_instance().display_name, load_imported_instance().ipv4) == ("Shop", IP)
    assert operator.get(f"{page}/{UNMANAGED_ID}/import").status_code == 404


def test_import_page_shows_conflicts(browser_as, cast, unmanaged_machine, node, discover):
    operator, page = browser_as("admin"), f"/admin/hypervisors/{cast.node.id}/orphans"
    node_sync.reconcile(cast.node.id)
    assert "Refresh first." in operator.get(page).text
    assert operator.get(f"{page}/{UNMANAGED_ID}/import").status_code == 409
    node.make_unimportable(UNMANAGED_ID, "It has snapshots. Delete them first.")
    discover()
    shown = operator.get(page).text
    assert "It has snapshots. Delete them first." in shown
    assert f"{UNMANAGED_ID}/import" not in shown


def test_read_only_operator_cannot_import(browser_as, cast, discovered_machine):
    cast.admin.operator_role = "read_only"
    session.commit()
    page = f"/admin/hypervisors/{cast.node.id}/orphans"
    assert browser_as("admin").get(f"{page}/{UNMANAGED_ID}/import").status_code == 403
    assert browser_as("admin").post(f"{page}/{UNMANAGED_ID}/import", data={}).status_code == 403
