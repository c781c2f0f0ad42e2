"""Hypervisors, groups and storages by the operators' API."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, HypervisorGroup, Storage
from panel.services import hypervisors

UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"
GROUPS, NODES, STORAGES = "/api/v1/hypervisor/groups", "/api/v1/hypervisors", "/api/v1/hypervisor/storages"


@pytest.fixture
def new_node(api_as, cast):
    """Adds a node by the API and gives its address there."""

    def add(name="node-2", **values):
        body = {"hypervisor_group_id": cast.location.id, "name": name, "driver": "simulated", "uri": "simulated://"}
        answer = api_as("admin", "POST", NODES, json={**body, **values})
        assert answer.status_code == 200, answer.text
        return f"/api/v1/hypervisor/{answer.json['data']['hypervisor_id']}"

    return add


@pytest.fixture
def new_group(api_as):
    def add(name="other", **values):
        answer = api_as("admin", "POST", GROUPS, json={"name": name, **values})
        assert answer.status_code == 200, answer.text
        return answer.json["data"]["id"]

    return add


def test_a_hypervisor_needs_a_group(api_as):
    """HVG-01, ENV-12"""
    answer = api_as("admin", "POST", NODES, json={"name": "n"})
    assert (answer.status_code, answer.json["success"]) == (422, False)
    assert answer.json["errors"].keys() == {"hypervisor_group_id"}
    unknown = api_as("admin", "POST", NODES, json={"name": "n", "hypervisor_group_id": UNKNOWN_ID})
    assert (unknown.status_code, unknown.json["errors"].keys()) == (422, {"hypervisor_group_id"})
    assert unknown.headers["X-Api-Envelope"] == "v1"


def test_a_broken_body_is_answered_in_the_envelope(api_as):
    """ENV-33"""
    answer = api_as("admin", "POST", NODES, data="{", content_type="application/json")
    assert (answer.status_code, answer.json["success"]) == (400, False)


def test_a_new_hypervisor_is_unknown_until_a_worker_looked(api_as, new_node, run_tasks):
    """HVG-02: 200 and `data.hypervisor_id`."""
    path = new_node()
    before = api_as("admin", "GET", path).json["data"]
    assert (before["status"], before["seen_at"], before["cpu_cores"]) == ("unknown", None, 0)
    run_tasks()
    after = api_as("admin", "GET", path).json["data"]
    assert (after["status"], after["closed"], after["promised"]["instances"]) == ("up", None, 0)
    assert after["cpu_cores"] > 0
    assert after["storages"][0]["capacity"] > 0


def test_a_test_shows_that_a_node_is_away_and_back(api_as, new_node, run_tasks, cast):
    path = new_node(uri="simulated://?cores=many")
    run_tasks()
    down = api_as("admin", "GET", path).json["data"]
    assert (down["status"], down["closed"]) == ("down", "hypervisor_down")
    assert "cores=many" in down["status_detail"]
    again = api_as("admin", "POST", f"{path}/test")
    assert (again.status_code, again.json["data"]["status"]) == (200, "unknown")
    run_tasks()
    assert api_as("admin", "GET", path).json["data"]["status"] == "down"
    changed = api_as("admin", "PATCH", path, json={"uri": "simulated://?cores=4"})
    assert changed.json["data"]["status"] == "unknown"
    run_tasks()
    assert api_as("admin", "GET", path).json["data"]["cpu_cores"] == 4


def test_a_node_that_is_up_stays_open_while_it_is_tested(api_as, cast):
    answer = api_as("admin", "POST", f"/api/v1/hypervisor/{cast.node.id}/test")
    assert answer.json["data"]["status"] == "up"


ADDRESSES = {
    "qemu:///system": None,
    "qemu+ssh://root@node-9.example.com:2222/system?keyfile=/etc/panel/key": None,
    "qemu+tls://[fd00::9]/system": None,
    "qemu+unix:///system?socket=/run/libvirt/libvirt-sock": None,
    "test:///default": "begins with",
    "simulated://": "begins with",
    "qemu+ext:///system?command=/bin/true": "begins with",
    "qemu+ssh://node/system?command=/bin/true": "command",
    "qemu+ssh://node/system?netcat=true;reboot": "netcat",
    "qemu+ssh://root:secret@node/system": "password",
    "qemu+ssh://-oProxyCommand=reboot/system": "not valid",
    "qemu+tls://node": "/system",
    "qemu+tls://[fd00/system": "not a valid address",
    "qemu+tls://node:port/system": "not a valid address",
}


@pytest.mark.parametrize("uri", ADDRESSES)
def test_an_address_must_fit_the_driver_and_run_nothing(api_as, cast, uri):
    body = {"hypervisor_group_id": cast.location.id, "name": "n", "driver": "libvirt", "uri": uri}
    answer = api_as("admin", "POST", NODES, json=body)
    if ADDRESSES[uri] is None:
        assert answer.status_code == 200
    else:
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {"uri"})
        assert ADDRESSES[uri] in answer.json["errors"]["uri"][0]
        assert "secret" not in answer.text


def test_one_host_is_added_once(api_as, cast):
    body = {"hypervisor_group_id": cast.location.id, "driver": "libvirt", "uri": "qemu+tls://node-9/system"}
    assert api_as("admin", "POST", NODES, json={**body, "name": "a"}).status_code == 200
    again = api_as("admin", "POST", NODES, json={**body, "name": "b"})
    assert (again.status_code, again.json["errors"]) == (422, {"uri": ["This is the address of a."]})
    named = api_as("admin", "POST", NODES, json={**body, "name": "a", "uri": "qemu:///system"})
    assert (named.status_code, named.json["errors"].keys()) == (422, {"name"})


def test_hypervisor_maintenance_patch(api_as, cast):
    """ERR-07, and the tool `admin.hypervisor.set_maintenance`."""
    path = f"/api/v1/hypervisor/{cast.node.id}"
    before = api_as("admin", "GET", path).json["data"]
    answer = api_as("admin", "PATCH", path, json={"maintenance": True})
    assert answer.status_code == 200
    after = answer.json["data"]
    assert {k for k in after if after[k] != before[k]} == {"maintenance", "closed", "updated_at"}
    assert after["closed"] == "hypervisor_maintenance"
    for value in ("true", 1, 0, None):
        wrong = api_as("admin", "PATCH", path, json={"maintenance": value})
        assert (wrong.status_code, wrong.json["errors"].keys()) == (422, {"maintenance"})
    assert api_as("admin", "GET", path).json["data"]["maintenance"] is True


def test_what_workers_write_cannot_be_sent(api_as, cast):
    answer = api_as("admin", "PATCH", f"/api/v1/hypervisor/{cast.node.id}", json={"status": "up", "locked": True})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"status"})
    assert "maintenance" in answer.json["errors"]["status"][0]
    assert session.get(Hypervisor, cast.node.id).locked is False


def test_a_hypervisor_with_instances_stays(api_as, cast, new_group):
    cast.instance()
    path = f"/api/v1/hypervisor/{cast.node.id}"
    refused = api_as("admin", "DELETE", path)
    assert (refused.status_code, refused.json["success"]) == (409, False)
    assert "Destroy or move them" in refused.json["message"]
    moved = api_as("admin", "PATCH", path, json={"hypervisor_group_id": new_group()})
    assert moved.status_code == 409
    assert api_as("admin", "GET", path).json["data"]["hypervisor_group_id"] == cast.location.id


def test_an_empty_hypervisor_goes_with_its_storages(api_as, new_node, new_group, run_tasks):
    path = new_node()
    run_tasks()
    other = new_group()
    assert api_as("admin", "PATCH", path, json={"hypervisor_group_id": other}).status_code == 200
    before = session.query(Storage).count()
    assert api_as("admin", "DELETE", path).status_code == 200
    assert api_as("admin", "GET", path).status_code == 404
    assert session.query(Storage).count() == before - 1
    assert api_as("admin", "DELETE", f"/api/v1/hypervisor/group/{other}").status_code == 200


def test_a_group_takes_plan_groups(api_as, cast, new_group):
    """HVG-05, and HVG-03 for the switch that exists."""
    made = api_as("admin", "POST", "/api/v1/cloud-service/plan-groups", json={"name": "fast"}).json["data"]["id"]
    path = f"/api/v1/hypervisor/group/{new_group(plan_groups=[made], enabled=False)}"
    data = api_as("admin", "GET", path).json["data"]
    assert ([group["id"] for group in data["plan_groups"]], data["enabled"]) == ([made], False)
    changed = api_as("admin", "PATCH", path, json={"plan_groups": []}).json["data"]
    assert (changed["plan_groups"], changed["enabled"], changed["name"]) == ([], False, "other")
    wrong = api_as("admin", "PATCH", path, json={"plan_groups": [UNKNOWN_ID]})
    assert (wrong.status_code, wrong.json["errors"].keys()) == (422, {"plan_groups"})


def test_a_group_patch_changes_only_what_is_sent(api_as, cast):
    """HVG-06"""
    path = f"/api/v1/hypervisor/group/{cast.location.id}"
    before = api_as("admin", "GET", path).json["data"]
    after = api_as("admin", "PATCH", path, json={"enabled": False}).json["data"]
    assert {k for k in after if after[k] != before[k]} == {"enabled", "updated_at"}


def test_a_closed_group_takes_no_new_instances(api_as, cast):
    """HVG-07"""
    instance = cast.instance()
    api_as("admin", "PATCH", f"/api/v1/hypervisor/group/{cast.location.id}", json={"enabled": False})
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    refused = api_as("owner", "POST", "/api/cloud-service/instances", json=body)
    assert (refused.status_code, refused.json["errors"].keys()) == (422, {"location_id"})
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").status_code == 200


def test_names_are_given_once(api_as, cast, new_group):
    new_group("other")
    for body in ({"name": "lab"}, {"name": "other"}):
        answer = api_as("admin", "POST", GROUPS, json=body)
        assert (answer.status_code, answer.json["errors"]) == (422, {"name": ["This name is taken."]})
    path = f"/api/v1/hypervisor/group/{cast.location.id}"
    assert api_as("admin", "PATCH", path, json={"name": "other"}).status_code == 422
    assert api_as("admin", "PATCH", path, json={"name": "lab"}).status_code == 200


def test_a_group_that_is_used_stays(api_as, cast, new_group):
    path = f"/api/v1/hypervisor/group/{cast.location.id}"
    assert "Hypervisors" in api_as("admin", "DELETE", path).json["message"]
    other = new_group()
    body = {"name": "s", "hypervisor_group_id": other, "cidr": "10.77.0.0/29"}
    assert api_as("admin", "POST", "/api/v1/subnets", json=body).status_code == 200
    refused = api_as("admin", "DELETE", f"/api/v1/hypervisor/group/{other}")
    assert (refused.status_code, "Subnets" in refused.json["message"]) == (409, True)


def test_the_hypervisors_of_a_group(api_as, cast, new_node):
    new_node()
    answer = api_as("admin", "GET", f"/api/v1/hypervisor/group/{cast.location.id}/hypervisors")
    assert [row["name"] for row in answer.json["data"]] == ["node-1", "node-2"]


def test_a_storage_is_added_and_made(api_as, cast, run_tasks):
    """HVG-09"""
    body = {"hypervisor_id": cast.node.id, "name": "ssd", "path": "/srv/ssd"}
    answer = api_as("admin", "POST", STORAGES, json=body)
    assert (answer.status_code, answer.json["data"].keys()) == (200, {"storage_id"})
    path = f"/api/v1/hypervisor/storage/{answer.json['data']['storage_id']}"
    run_tasks()
    assert api_as("admin", "GET", path).json["data"]["capacity"] > 0
    data = api_as("admin", "PATCH", path, json={"enabled": False}).json["data"]
    assert (data["enabled"], data["path"], data["promised"]) == (False, "/srv/ssd", 0)
    for wrong in (
        {"name": "ssd"},
        {"path": "/srv/ssd"},
        {"path": "relative"},
        {"path": "/srv/../etc"},
        {"name": "a b"},
    ):
        answer = api_as("admin", "POST", STORAGES, json={**body, "name": "x", "path": "/srv/x", **wrong})
        assert (answer.status_code, answer.json["errors"].keys()) == (422, wrong.keys()), wrong
    unknown = api_as("admin", "POST", STORAGES, json={**body, "hypervisor_id": UNKNOWN_ID})
    assert (unknown.status_code, unknown.json["errors"].keys()) == (422, {"hypervisor_id"})
    assert api_as("admin", "DELETE", path).status_code == 200


def test_a_storage_with_disks_stays(api_as, cast):
    disk = cast.instance().disks[0]
    answer = api_as("admin", "DELETE", f"/api/v1/hypervisor/storage/{disk.storage_id}")
    assert (answer.status_code, "Disks" in answer.json["message"]) == (409, True)


def test_figures_of_a_hypervisor(api_as, cast):
    cast.instance()
    path = f"/api/v1/hypervisor/{cast.node.id}"
    stats = api_as("admin", "GET", f"{path}/instances/stats").json["data"]
    assert (stats["total"], stats["states"]["pending"], stats["states"]["running"]) == (1, 1, 0)
    ips = api_as("admin", "GET", f"{path}/ipv4/stats").json["data"]
    assert ips == {"used": 1, "group_total": 253, "group_available": 252}
    promised = api_as("admin", "GET", path).json["data"]["promised"]
    assert promised == {"instances": 1, "cpu_cores": 1, "ram": 512, "storage": 10}


def test_lists_can_be_narrowed(api_as, cast, new_node):
    new_node("west-2")
    names = lambda query: [row["name"] for row in api_as("admin", "GET", f"{NODES}?{query}").json["data"]]  # noqa: E731
    assert (names("search=west"), names("status=unknown"), names("status=up")) == (["west-2"], ["west-2"], ["node-1"])
    assert api_as("admin", "GET", f"{NODES}?status=bad").status_code == 422


@pytest.mark.parametrize("path", [GROUPS, NODES, STORAGES, "/api/v1/cloud-service/locations"])
def test_a_list_takes_the_same_queries_for_many_rows(api_as, cast, queries, path):
    """ENV-19 to ENV-21, LIM-01, LIM-03"""
    api_as("admin", "GET", path)
    queries.clear()
    api_as("admin", "GET", path)
    few = len(queries)
    for number in range(30):
        group = HypervisorGroup(name=f"g{number}", display_name=f"G {number}")
        hypervisors.create(group, name=f"n{number}", driver="simulated", uri="simulated://", storage_path="/srv/a")
    session.commit()
    queries.clear()
    answer = api_as("admin", "GET", path)
    assert len(queries) == few
    assert len(answer.json["data"]) == answer.json["meta"]["total"] == 31
    for per_page, status in (("1", 200), ("100", 200), ("0", 422), ("101", 422), ("-1", 422), ("x", 422)):
        answer = api_as("admin", "GET", f"{path}?per_page={per_page}")
        assert (answer.status_code, answer.headers["X-Api-Envelope"]) == (status, "v1")
    assert api_as("admin", "GET", f"{path}?per_page=2&page=2").json["meta"] == {
        "current_page": 2,
        "per_page": 2,
        "total": 31,
        "last_page": 16,
        "from": 3,
        "to": 4,
    }


@pytest.mark.parametrize("path", ["group/{}", "{}", "storage/{}", "{}/instances/stats", "{}/ipv4/stats"])
def test_an_unknown_id_is_not_found(api_as, path):
    """ENV-10"""
    answer = api_as("admin", "GET", f"/api/v1/hypervisor/{path.format(UNKNOWN_ID)}")
    assert (answer.status_code, answer.json["success"]) == (404, False)
    assert answer.headers["X-Api-Envelope"] == "v1"
