"""Instances in the customers' API: what real clients send and decode."""

import re
from itertools import pairwise

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Address, Event, Hypervisor, Instance, Storage, Subnet, Task
from panel.services import subnets

VALID_HOSTNAMES = ("a", "a-b", "_dmarc.example", "host.example.", "x" * 63, ".".join(["a" * 61] * 4), "0.example")
INVALID_HOSTNAMES = ("", "-a", "a-", "a--b", "xn--bcher-kva", "x" * 64, "a..b", ".", "host\n", "a b", "ä", "a" * 254, 5)


@pytest.fixture
def create_body(cast):
    return {"location_id": cast.location.id, "plan_id": cast.plan.id}


@pytest.fixture
def running_instance(api_as, cast, run_tasks):
    """A deployed instance of the owner."""
    instance = cast.instance(hostname="web.example.com")
    api_as(
        "owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id, "password": "x" * 9}
    )
    run_tasks()
    return instance


def test_instance_create_and_deploy(api_as, cast, create_body, run_tasks, node):
    """INS-01, INS-02, INS-04 to INS-06, INS-08, INS-10, INS-55, INS-67: the two steps of both public clients."""
    created_instance = api_as("owner", "POST", "/api/cloud-service/instances", json=create_body)
    assert created_instance.status_code == 200
    instance = created_instance.json["instance"]
    assert re.fullmatch(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", instance["id"])
    assert re.fullmatch(r"h\d+", instance["name"])
    assert (instance["state"], instance["status"], instance["deployed"]) == ("pending", 0, False)
    assert instance["display_name"]
    assert instance["hostname"]
    assert instance["vnc_password"] is None
    deploy = api_as("owner", "POST", f"/api/instance/{instance['id']}/deploy", json={"image_id": cast.image.id})
    assert deploy.json.keys() == {"success", "message", "task_id", "password"}
    address = f"/api/instance/{instance['id']}/task/{deploy.json['task_id']}"
    assert api_as("owner", "GET", address).json["task"]["status"] == "queued"
    run_tasks()
    done = api_as("owner", "GET", address).json
    assert (done["task"]["status"], done["task"]["progress"], done["task"]["error"]) == ("completed", 100, None)
    assert [line["message"] for line in done["logs"]][-1] == "Starting"
    shown = api_as("owner", "GET", f"/api/instance/{instance['id']}").json
    assert (shown["state"], shown["status"], shown["deployed"]) == ("running", 1, True)
    assert [machine.id for machine in node.machines()] == [instance["id"]]
    gone = api_as("owner", "DELETE", f"/api/cloud-service/instances/{instance['id']}")
    assert gone.json["task_id"]
    run_tasks()
    assert api_as("owner", "GET", f"/api/instance/{instance['id']}").status_code == 404
    assert (node.machines(), len(node.disks("default"))) == ([], 1)  # the image remains
    assert api_as("owner", "GET", address).json["task"]["status"] == "completed"


def test_create_allocates_and_destroy_frees_addresses(api_as, cast, create_body, run_tasks):
    first = api_as("owner", "POST", "/api/cloud-service/instances", json=create_body).json["instance"]
    assert first["primary_public_ip"] == {"ip": "10.9.0.2"}
    assert first["primary_public_ipv6"] == {"ip": "fd99::2"}
    second = api_as("owner", "POST", "/api/cloud-service/instances", json=create_body).json["instance"]
    assert second["primary_public_ip"] == {"ip": "10.9.0.3"}
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{first['id']}")
    run_tasks()
    third = api_as("owner", "POST", "/api/cloud-service/instances", json=create_body).json["instance"]
    assert (third["primary_public_ip"], third["primary_public_ipv6"]) == ({"ip": "10.9.0.2"}, {"ip": "fd99::2"})


def test_instance_item_has_fields_of_clients(api_as, running_instance):
    """INS-12, INS-17, INS-25, INS-27, INS-28, INS-30, INS-32, INS-33 and the provider's computed fields"""
    item = api_as("owner", "GET", f"/api/instance/{running_instance.id}").json
    for number in ("cpu_cores", "ram", "status"):
        assert isinstance(item[number], int)
    assert isinstance(item["enable_vnc"], bool)
    assert item["notes"] is None
    assert item["primary_interface"]["used_bandwidth"] == 0.0
    assert "used_bandwidth" not in item
    assert item["tasks"][0]["kind"] == "instance_deploy"
    assert {"source_backup_id", "source_backup_at"} <= item["tasks"][0].keys()
    row = api_as("owner", "GET", "/api/instances").json["data"][0]
    assert "notes" in row
    assert row.items() <= {**item, "updated_at": row["updated_at"]}.items()


def test_instance_patch_changes_fields(api_as, cast):
    """INS-03, INS-13, INS-14, INS-23, INS-24, INS-34, INS-35"""
    path = f"/api/instance/{cast.instance().id}"
    before = api_as("owner", "GET", path).json
    changes = {
        "display_name": "Shop",
        "hostname": "shop.example",
        "notes": "n",
        "boot": "cdrom,disk",
        "enable_smtp": False,
    }
    answer = api_as("owner", "PATCH", path, json=changes)
    assert answer.json.keys() == {"success", "message", "instance"}
    assert changes.items() <= answer.json["instance"].items()
    assert answer.json["instance"]["name"] == before["name"]
    assert api_as("owner", "PATCH", path, json={"notes": None}).json["instance"]["notes"] is None
    refused = api_as("owner", "PATCH", path, json={"notes": "kept out", "name": "h1"})
    assert refused.status_code == 422
    assert "display_name, hostname, notes" in refused.json["errors"]["name"][0]
    assert api_as("owner", "GET", path).json["notes"] is None


@pytest.mark.parametrize(("caller", "path"), [("owner", "/api/instance/{}"), ("admin", "/api/v1/instance/{}")])
def test_patch_ignores_empty_names_and_clears_empty_notes(api_as, cast, caller, path):
    """The public provider sends `""` for the one of the two names that it does not know."""
    instance = cast.instance(display_name="Shown", hostname="tf1.example.com")
    patch = lambda body: api_as(caller, "PATCH", path.format(instance.id), json=body)  # noqa: E731
    assert patch({"display_name": "", "hostname": "tf2.example.com", "notes": "n"}).status_code == 200
    assert (instance.display_name, instance.hostname, instance.notes) == ("Shown", "tf2.example.com", "n")
    assert patch({"display_name": "Other", "hostname": "", "notes": ""}).status_code == 200
    assert (instance.display_name, instance.hostname, instance.notes) == ("Other", "tf2.example.com", None)


def test_rename_page_rejects_empty_name(browser_as, cast):
    instance = cast.instance(hostname="a.example")
    browser_as("owner").post(f"/instances/{instance.id}/rename", data={"display_name": ""})
    assert instance.display_name


@pytest.mark.parametrize("name", VALID_HOSTNAMES)
def test_valid_hostname_is_accepted(api_as, cast, name):
    """LIM-04 to LIM-08"""
    answer = api_as("owner", "PATCH", f"/api/instance/{cast.instance().id}", json={"hostname": name})
    assert (answer.status_code, answer.json["instance"]["hostname"]) == (200, name)


@pytest.mark.parametrize("name", INVALID_HOSTNAMES)
def test_invalid_hostname_is_refused(api_as, cast, create_body, name):
    """LIM-04 to LIM-09, ERR-01, ERR-05"""
    instance = cast.instance()
    for method, path, body in (
        ("PATCH", f"/api/instance/{instance.id}", {}),
        ("POST", "/api/cloud-service/instances", create_body),
        ("POST", f"/api/instance/{instance.id}/deploy", {"image_id": cast.image.id}),
    )[name == "" :]:  # in a PATCH an empty name means unchanged
        answer = api_as("owner", method, path, json={**body, "hostname": name})
        assert answer.status_code == 422
        assert isinstance(answer.json["errors"]["hostname"], list)
        if isinstance(name, str):
            assert "valid hostname" in answer.json["message"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("display_name", "x" * 256),
        ("display_name", "a\x00b"),
        ("display_name", 5),
        ("display_name", None),
        ("notes", "x" * 65537),
        ("notes", "a\x1bb"),
        ("boot", "floppy"),
        ("enable_smtp", "true"),
        ("enable_smtp", 1),
        ("protection_enabled", 0),
        ("vnc_keymap", "xx-yy"),
        ("vnc_keymap", ["de"]),
    ],
)
def test_patch_with_invalid_value_names_field(api_as, cast, field, value):
    """ERR-07, INS-19"""
    answer = api_as("owner", "PATCH", f"/api/instance/{cast.instance().id}", json={field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"location_id": "nosuch"}, "location_id"),
        ({"plan_id": "nosuch"}, "plan_id"),
        ({"plan_id": None}, "plan_id"),
        ({"plan_id": 7}, "plan_id"),
        ({"display_name": "a\nb"}, "display_name"),
        ({"image_id": "x"}, "image_id"),
    ],
)
def test_create_with_invalid_field_creates_nothing(api_as, create_body, change, field):
    answer = api_as("owner", "POST", "/api/cloud-service/instances", json={**create_body, **change})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    assert api_as("owner", "GET", "/api/instances").json["total"] == 0


def test_create_accepts_hypervisor_group_id_as_location(api_as, create_body):
    body = {"hypervisor_group_id": create_body["location_id"], "plan_id": create_body["plan_id"]}
    assert api_as("owner", "POST", "/api/cloud-service/instances", json=body).status_code == 200


def exhaust_addresses(family):
    for subnet in session.scalars(select(Subnet).where(Subnet.family == family)):
        subnet.enabled = False


def fill_storage(_):
    session.scalar(select(Storage)).capacity = 5 * 1024**3


def fill_memory(_):
    session.scalar(select(Hypervisor)).memory_mb = 256


def mark_node_down(_):
    session.scalar(select(Hypervisor)).status = "down"


@pytest.mark.parametrize("create", ["cloud-service", "self-provisioning"])
@pytest.mark.parametrize(
    ("exhaust", "family", "reason"),
    [
        (exhaust_addresses, 4, "ipv4_not_available"),
        (exhaust_addresses, 6, "ipv6_not_available"),
        (fill_storage, 0, "storage_not_sufficient"),
        (fill_memory, 0, "resources_not_sufficient"),
        (mark_node_down, 0, "hypervisor_not_available"),
    ],
)
def test_create_without_capacity_is_refused_with_reason(api_as, cast, create_body, exhaust, family, reason, create):
    """INS-69 to INS-71, INS-74, INS-75, ERR-08: a reason without internals; no row is kept"""
    exhaust(family)
    session.commit()
    answer = api_as("owner", "POST", f"/api/{create}/instances", json=create_body)
    assert (answer.status_code, answer.json["reason"]) == (422, reason)
    assert "node-1" not in answer.text
    assert "10.9" not in answer.text
    assert api_as("owner", "GET", "/api/instances").json["total"] == 0
    assert session.scalar(select(Address).where(Address.interface_id.is_not(None))) is None


def test_last_ipv4_address_is_allocated_once(api_as, cast, create_body):
    subnet = session.scalar(select(Subnet).where(Subnet.family == 4))
    for address in session.scalars(subnets.select_free(subnet)).all()[1:]:
        subnets.set_reserved(address, True)
    session.commit()
    assert api_as("owner", "POST", "/api/cloud-service/instances", json=create_body).status_code == 200
    assert (
        api_as("owner", "POST", "/api/cloud-service/instances", json=create_body).json["reason"] == "ipv4_not_available"
    )


def test_instance_power_actions(api_as, running_instance, run_tasks):
    """No task when the state is as requested; refused when the state does not allow the action"""

    def post_power_action(action):
        answer = api_as("owner", "POST", f"/api/instance/{running_instance.id}/power/{action}")
        run_tasks()
        return answer.status_code, answer.json.get("reason"), "task_id" in answer.json

    def get_state():
        return api_as("owner", "GET", f"/api/instance/{running_instance.id}").json["state"]

    assert post_power_action("start") == (200, None, False)
    assert post_power_action("restart") == (200, None, True)
    assert get_state() == "running"
    assert post_power_action("shutdown") == (200, None, True)
    assert get_state() == "stopped"
    assert post_power_action("stop") == (200, None, False)
    assert post_power_action("restart") == (409, "not_running", False)
    assert post_power_action("start") == (200, None, True)
    assert post_power_action("stop") == (200, None, True)
    assert post_power_action("start") == (200, None, True)
    assert post_power_action("poweroff") == (200, None, True)
    assert get_state() == "stopped"
    changes = session.scalars(select(Event).where(Event.kind == "instance.status_changed").order_by(Event.id)).all()
    assert [e.data["status"] for e in changes] == ["stopped", "running", "stopped", "running", "stopped"]
    assert all(a.data["status"] == b.data["previous"] for a, b in pairwise(changes))


def test_power_actions_before_deploy_are_refused(api_as, cast):
    path = f"/api/instance/{cast.instance().id}"
    for action in ("start", "stop", "shutdown", "restart", "poweroff"):
        answer = api_as("owner", "POST", f"{path}/power/{action}")
        assert (answer.status_code, answer.json["reason"]) == (409, "not_deployed")


def test_exclusive_task_blocks_other_tasks(api_as, cast):
    path = f"/api/instance/{cast.instance().id}"
    body = {"image_id": cast.image.id}
    assert api_as("owner", "POST", f"{path}/deploy", json=body).status_code == 200
    again = api_as("owner", "POST", f"{path}/deploy", json=body)
    assert (again.status_code, again.json["reason"]) == (409, "task_running")
    assert api_as("owner", "POST", f"{path}/power/start").json["reason"] == "task_running"


def test_suspended_instance_refuses_power_and_destroy(api_as, running_instance):
    """INS-09"""
    session.get(Instance, running_instance.id).suspended_reason = "admin"
    session.commit()
    shown = api_as("owner", "GET", f"/api/instance/{running_instance.id}").json
    assert (shown["state"], shown["status"]) == ("suspended", 2)
    for method, path in (("POST", "/api/instance/{}/power/stop"), ("DELETE", "/api/cloud-service/instances/{}")):
        answer = api_as("owner", method, path.format(running_instance.id))
        assert (answer.status_code, answer.json["reason"]) == (409, "suspended")


def test_protected_instance_is_not_destroyed(api_as, running_instance, run_tasks):
    """INS-21, INS-22, OP-10, OP-21"""
    api_as("owner", "PATCH", f"/api/instance/{running_instance.id}", json={"protection_enabled": True})
    for caller, path in (("owner", "/api/cloud-service/instances/"), ("admin", "/api/v1/instance/")):
        answer = api_as(caller, "DELETE", path + running_instance.id)
        assert (answer.status_code, answer.json["reason"]) == (409, "protection_enabled")
    api_as("owner", "PATCH", f"/api/instance/{running_instance.id}", json={"protection_enabled": False})
    assert api_as("owner", "DELETE", f"/api/cloud-service/instances/{running_instance.id}").status_code == 200
    run_tasks()
    assert api_as("owner", "GET", f"/api/instance/{running_instance.id}").status_code == 404


def test_second_destroy_returns_first_task(api_as, running_instance, run_tasks):
    first = api_as("owner", "DELETE", f"/api/cloud-service/instances/{running_instance.id}").json
    assert api_as("owner", "DELETE", f"/api/cloud-service/instances/{running_instance.id}").json == first
    run_tasks()


def test_failed_deploy_shows_error_and_can_be_retried(api_as, cast, run_tasks, node):
    instance = cast.instance()
    node.fault("define", "refuse", count=1)
    path = f"/api/instance/{instance.id}"
    task_id = api_as("owner", "POST", f"{path}/deploy", json={"image_id": cast.image.id}).json["task_id"]
    run_tasks()
    task = api_as("owner", "GET", f"{path}/task/{task_id}").json["task"]
    assert task["status"] == "failed"
    assert task["error"]
    shown = api_as("owner", "GET", path).json
    assert (shown["state"], shown["last_error"]) == ("pending", task["error"])
    assert node.machines() == []
    assert instance.disks[0].name not in [disk.name for disk in node.disks("default")]
    api_as("owner", "POST", f"{path}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    assert api_as("owner", "GET", path).json["state"] == "running"


def test_deploy_event_names_actor(api_as, running_instance):
    kinds = session.scalars(select(Event).where(Event.resource_id == running_instance.id).order_by(Event.id)).all()
    assert [event.kind for event in kinds] == ["instance.created", "instance.deployed"]
    assert kinds[1].actor == "owner@example.com"


def test_deploy_checks_ssh_keys_and_omits_password(api_as, cast, run_tasks, node):
    """INS-47, INS-48, INS-51, INS-54, OP-14"""
    own_ssh_key = api_as("owner", "POST", "/api/ssh-key/generate", json={"name": "a", "algorithm": "ed25519"}).json[
        "ssh_key"
    ]
    other = api_as("outsider", "POST", "/api/ssh-key/generate", json={"name": "b", "algorithm": "rsa"}).json["ssh_key"]
    body = {"image_id": cast.image.id}
    path = f"/api/instance/{cast.instance().id}/deploy"
    foreign = api_as("owner", "POST", path, json={**body, "ssh_keys": [own_ssh_key["id"], other["id"]]})
    assert (foreign.status_code, list(foreign.json["errors"])) == (422, ["ssh_keys"])
    alias = api_as("owner", "POST", path, json={**body, "ssh_key_id": other["id"]})
    assert (alias.status_code, list(alias.json["errors"])) == (422, ["ssh_key_id"])
    for wrong in (7, [7], {"a": 1}):
        assert api_as("owner", "POST", path, json={**body, "ssh_key_id": wrong}).status_code == 422
    answer = api_as("owner", "POST", path, json={**body, "ssh_key_id": own_ssh_key["id"]})
    assert answer.status_code == 200
    assert "password" not in answer.json
    run_tasks()
    by_admin = api_as(
        "admin", "POST", f"/api/v1/instance/{cast.instance().id}/deploy", json={**body, "ssh_keys": [other["id"]]}
    )
    assert by_admin.json["data"].keys() == {"task_id"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cloudcfg", "x" * 65537),
        ("cloudcfg", "- a list"),
        ("cloudcfg", "a: [unclosed"),
        ("cloudcfg", "a: &a [1]\nb: [*a, *a]"),
        ("timezone", "Mars/Olympus"),
        ("password", "short"),
        ("image_id", "nosuch"),
    ],
)
def test_deploy_with_invalid_value_names_field(api_as, cast, field, value):
    """INS-52"""
    body = {"image_id": cast.image.id, field: value}
    answer = api_as("owner", "POST", f"/api/instance/{cast.instance().id}/deploy", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_cloudcfg_limit_counts_characters(api_as, cast):
    """INS-52, INS-53"""
    body = {"image_id": cast.image.id, "cloudcfg": "#" + "é" * 65535}
    assert api_as("owner", "POST", f"/api/instance/{cast.instance().id}/deploy", json=body).status_code == 200


def test_deploy_secret_is_encrypted_and_cleared(api_as, cast, run_tasks):
    body = {"image_id": cast.image.id, "password": "a secret of mine"}
    answer = api_as("owner", "POST", f"/api/instance/{cast.instance().id}/deploy", json=body)
    raw = session.connection().exec_driver_sql("select secret, arguments from tasks").one()
    assert raw[0]
    assert "a secret of mine" not in str(raw)
    run_tasks()
    assert session.get(Task, answer.json["task_id"]).secret is None


def test_image_larger_than_disk_is_refused(api_as, cast):
    cast.image.min_disk = 999
    session.commit()
    instance = cast.instance()
    answer = api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    assert "999 GiB" in answer.json["errors"]["image_id"][0]
    assert api_as("owner", "GET", f"/api/instance/{instance.id}/images").json == {}


def test_search_and_state_filters(api_as, cast, running_instance):
    other = cast.instance(hostname="db.example.com", display_name="100% data_base")

    def list_ids(query):
        return [row["id"] for row in api_as("owner", "GET", f"/api/instances?{query}").json["data"]]

    assert list_ids("search=web") == [running_instance.id]
    assert list_ids("search=100%25") == [other.id]
    assert list_ids("search=data_b") == [other.id]
    assert list_ids("search=%25") == [other.id]
    assert list_ids("search=10.9.0.2") == [running_instance.id]
    assert list_ids("state=running") == [running_instance.id]
    assert list_ids("state=pending") == [other.id]
    assert api_as("owner", "GET", "/api/instances?state=asleep").status_code == 422


def test_tasks_are_listed_cancelled_and_deleted(api_as, cast, run_tasks):
    instance = cast.instance()
    body = {"image_id": cast.image.id}
    task_id = api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json=body).json["task_id"]
    assert api_as("owner", "DELETE", f"/api/task/{task_id}").json["reason"] == "task_running"
    cancelled = api_as("owner", "POST", f"/api/task/{task_id}/cancel")
    assert cancelled.status_code == 200
    run_tasks()
    shown = api_as("owner", "GET", f"/api/task/{task_id}").json["task"]
    assert shown["status"] == "cancelled"
    assert api_as("owner", "POST", f"/api/task/{task_id}/cancel").json["reason"] == "not_cancellable"
    assert api_as("owner", "GET", "/api/tasks?status=cancelled").json["total"] == 1
    assert api_as("owner", "GET", "/api/tasks?status=open").json["total"] == 0
    assert api_as("owner", "GET", f"/api/instance/{instance.id}/tasks").json["data"][0]["id"] == task_id
    assert api_as("owner", "GET", f"/api/task/{task_id}/logs").json["logs"]
    assert api_as("owner", "DELETE", f"/api/task/{task_id}").json["success"] is True
    assert api_as("owner", "GET", f"/api/task/{task_id}").status_code == 404
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["state"] == "pending"


def test_addresses_and_disks_are_listed(api_as, cast):
    instance = cast.instance()
    ips = api_as("owner", "GET", f"/api/instance/{instance.id}/ips").json["data"]
    assert [(row["family"], row["ip"]) for row in ips] == [(4, "10.9.0.2"), (6, "fd99::2")]
    disks = api_as("owner", "GET", f"/api/instance/{instance.id}/disks").json["data"]
    assert [(row["size"], row["is_primary"]) for row in disks] == [(10, True)]


def test_other_account_sees_no_instances_or_tasks(api_as, running_instance):
    assert api_as("outsider", "GET", "/api/instances").json["total"] == 0
    assert api_as("outsider", "GET", "/api/tasks").json["total"] == 0
