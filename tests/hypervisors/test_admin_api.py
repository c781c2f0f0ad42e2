"""Hypervisors, groups and storages in the operators' API."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, HypervisorGroup, Storage
from panel.services import hypervisors
from tests.support.cast import UNKNOWN_ID

GROUPS_PATH, HYPERVISORS_PATH, STORAGES_PATH = (
    "/api/v1/hypervisor/groups",
    "/api/v1/hypervisors",
    "/api/v1/hypervisor/storages",
)


@pytest.fixture
def create_hypervisor(api_as, cast):
    """Return a function that creates a hypervisor and returns its API path."""

    def add(name="node-2", **values):
        body = {"hypervisor_group_id": cast.location.id, "name": name, "driver": "simulated", "uri": "simulated://"}
        answer = api_as("admin", "POST", HYPERVISORS_PATH, json={**body, **values})
        assert answer.status_code == 200, answer.text
        return f"/api/v1/hypervisor/{answer.json['data']['hypervisor_id']}"

    return add


@pytest.fixture
def create_group(api_as):
    def add(name="other", **values):
        answer = api_as("admin", "POST", GROUPS_PATH, json={"name": name, **values})
        assert answer.status_code == 200, answer.text
        return answer.json["data"]["id"]

    return add


def test_hypervisor_creation_requires_group(api_as):
    """HVG-01, ENV-12"""
    answer = api_as("admin", "POST", HYPERVISORS_PATH, json={"name": "n"})
    assert (answer.status_code, answer.json["success"]) == (422, False)
    assert answer.json["errors"].keys() == {"hypervisor_group_id"}
    unknown = api_as("admin", "POST", HYPERVISORS_PATH, json={"name": "n", "hypervisor_group_id": UNKNOWN_ID})
    assert (unknown.status_code, unknown.json["errors"].keys()) == (422, {"hypervisor_group_id"})
    assert unknown.headers["X-Api-Envelope"] == "v1"


def test_malformed_json_returns_error_envelope(api_as):
    """ENV-33"""
    answer = api_as("admin", "POST", HYPERVISORS_PATH, data="{", content_type="application/json")
    assert (answer.status_code, answer.json["success"]) == (400, False)


def test_new_hypervisor_status_is_unknown_until_probe(api_as, create_hypervisor, run_tasks):
    """HVG-02: 200 and `data.hypervisor_id`."""
    path = create_hypervisor()
    before = api_as("admin", "GET", path).json["data"]
    assert (before["status"], before["seen_at"], before["cpu_cores"]) == ("unknown", None, 0)
    run_tasks()
    after = api_as("admin", "GET", path).json["data"]
    assert (after["status"], after["closed"], after["promised"]["instances"]) == ("up", None, 0)
    assert after["cpu_cores"] > 0
    assert after["storages"][0]["capacity"] > 0


def test_connection_test_updates_hypervisor_status(api_as, create_hypervisor, run_tasks, cast):
    path = create_hypervisor(uri="simulated://?cores=many")
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


def test_connection_test_keeps_status_up_meanwhile(api_as, cast):
    answer = api_as("admin", "POST", f"/api/v1/hypervisor/{cast.node.id}/test")
    assert answer.json["data"]["status"] == "up"


URI_ERRORS = {
    "qemu:///system": None,
    "qemu+ssh://root@node-9.example.com:2222/system?keyfile=/etc/panel/key": None,
    "qemu+tls://[fd00::9]/system": None,
    "qemu+unix:///system?socket=/run/libvirt/libvirt-sock": None,
    "test:///default": "must start with one of",
    "simulated://": "must start with one of",
    "qemu+ext:///system?command=/bin/true": "must start with one of",
    "qemu+ssh://node/system?command=/bin/true": "command",
    "qemu+ssh://node/system?netcat=true;reboot": "netcat",
    "qemu+ssh://root:secret@node/system": "password",
    "qemu+ssh://-oProxyCommand=reboot/system": "not valid",
    "qemu+tls://node": "/system",
    "qemu+tls://[fd00/system": "Is not a valid URI",
    "qemu+tls://node:port/system": "Is not a valid URI",
}


@pytest.mark.parametrize("uri", URI_ERRORS)
def test_hypervisor_uri_validation(api_as, cast, uri):
    body = {"hypervisor_group_id": cast.location.id, "name": "n", "driver": "libvirt", "uri": uri}
    answer = api_as("admin", "POST", HYPERVISORS_PATH, json=body)
    if URI_ERRORS[uri] is None:
        assert answer.status_code == 200
    else:
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {"uri"})
        assert URI_ERRORS[uri] in answer.json["errors"]["uri"][0]
        assert "secret" not in answer.text


def test_duplicate_hypervisor_uri_or_name_is_refused(api_as, cast):
    body = {"hypervisor_group_id": cast.location.id, "driver": "libvirt", "uri": "qemu+tls://node-9/system"}
    assert api_as("admin", "POST", HYPERVISORS_PATH, json={**body, "name": "a"}).status_code == 200
    again = api_as("admin", "POST", HYPERVISORS_PATH, json={**body, "name": "b"})
    assert (again.status_code, again.json["errors"]) == (422, {"uri": ["This is the address of a."]})
    named = api_as("admin", "POST", HYPERVISORS_PATH, json={**body, "name": "a", "uri": "qemu:///system"})
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


def test_hypervisor_status_field_is_read_only(api_as, cast):
    answer = api_as("admin", "PATCH", f"/api/v1/hypervisor/{cast.node.id}", json={"status": "up", "locked": True})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"status"})
    assert "maintenance" in answer.json["errors"]["status"][0]
    assert session.get(Hypervisor, cast.node.id).locked is False


def test_hypervisor_with_instances_is_not_deleted_or_moved(api_as, cast, create_group):
    cast.instance()
    path = f"/api/v1/hypervisor/{cast.node.id}"
    refused = api_as("admin", "DELETE", path)
    assert (refused.status_code, refused.json["success"]) == (409, False)
    assert "Destroy or move them" in refused.json["message"]
    moved = api_as("admin", "PATCH", path, json={"hypervisor_group_id": create_group()})
    assert moved.status_code == 409
    assert api_as("admin", "GET", path).json["data"]["hypervisor_group_id"] == cast.location.id


def test_hypervisor_deletion_removes_storages(api_as, create_hypervisor, create_group, run_tasks):
    path = create_hypervisor()
    run_tasks()
    other = create_group()
    assert api_as("admin", "PATCH", path, json={"hypervisor_group_id": other}).status_code == 200
    before = session.query(Storage).count()
    assert api_as("admin", "DELETE", path).status_code == 200
    assert api_as("admin", "GET", path).status_code == 404
    assert session.query(Storage).count() == before - 1
    assert api_as("admin", "DELETE", f"/api/v1/hypervisor/group/{other}").status_code == 200


def test_group_plan_groups_can_be_set(api_as, cast, create_group):
    """HVG-05, and HVG-03 for the switch `enabled`."""
    plan_group_id = api_as("admin", "POST", "/api/v1/cloud-service/plan-groups", json={"name": "fast"}).json["data"][
        "id"
    ]
    path = f"/api/v1/hypervisor/group/{create_group(plan_groups=[plan_group_id], enabled=False)}"
    data = api_as("admin", "GET", path).json["data"]
    assert ([group["id"] for group in data["plan_groups"]], data["enabled"]) == ([plan_group_id], False)
    changed = api_as("admin", "PATCH", path, json={"plan_groups": []}).json["data"]
    assert (changed["plan_groups"], changed["enabled"], changed["name"]) == ([], False, "other")
    wrong = api_as("admin", "PATCH", path, json={"plan_groups": [UNKNOWN_ID]})
    assert (wrong.status_code, wrong.json["errors"].keys()) == (422, {"plan_groups"})


def test_group_patch_changes_only_given_fields(api_as, cast):
    """HVG-06"""
    path = f"/api/v1/hypervisor/group/{cast.location.id}"
    before = api_as("admin", "GET", path).json["data"]
    after = api_as("admin", "PATCH", path, json={"enabled": False}).json["data"]
    assert {k for k in after if after[k] != before[k]} == {"enabled", "updated_at"}


def test_disabled_group_refuses_new_instances(api_as, cast):
    """HVG-07"""
    instance = cast.instance()
    api_as("admin", "PATCH", f"/api/v1/hypervisor/group/{cast.location.id}", json={"enabled": False})
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    refused = api_as("owner", "POST", "/api/cloud-service/instances", json=body)
    assert (refused.status_code, refused.json["errors"].keys()) == (422, {"location_id"})
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").status_code == 200


def test_duplicate_group_name_is_refused(api_as, cast, create_group):
    create_group("other")
    for body in ({"name": "lab"}, {"name": "other"}):
        answer = api_as("admin", "POST", GROUPS_PATH, json=body)
        assert (answer.status_code, answer.json["errors"]) == (422, {"name": ["This name is taken."]})
    path = f"/api/v1/hypervisor/group/{cast.location.id}"
    assert api_as("admin", "PATCH", path, json={"name": "other"}).status_code == 422
    assert api_as("admin", "PATCH", path, json={"name": "lab"}).status_code == 200


def test_group_in_use_is_not_deleted(api_as, cast, create_group):
    path = f"/api/v1/hypervisor/group/{cast.location.id}"
    assert "Hypervisors" in api_as("admin", "DELETE", path).json["message"]
    other = create_group()
    body = {"name": "s", "hypervisor_group_id": other, "cidr": "10.77.0.0/29"}
    assert api_as("admin", "POST", "/api/v1/subnets", json=body).status_code == 200
    refused = api_as("admin", "DELETE", f"/api/v1/hypervisor/group/{other}")
    assert (refused.status_code, "Subnets" in refused.json["message"]) == (409, True)


def test_group_lists_its_hypervisors(api_as, cast, create_hypervisor):
    create_hypervisor()
    answer = api_as("admin", "GET", f"/api/v1/hypervisor/group/{cast.location.id}/hypervisors")
    assert [row["name"] for row in answer.json["data"]] == ["node-1", "node-2"]


def test_storage_create_update_and_delete(api_as, cast, run_tasks):
    """HVG-09"""
    body = {"hypervisor_id": cast.node.id, "name": "ssd", "path": "/srv/ssd"}
    answer = api_as("admin", "POST", STORAGES_PATH, json=body)
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
        answer = api_as("admin", "POST", STORAGES_PATH, json={**body, "name": "x", "path": "/srv/x", **wrong})
        assert (answer.status_code, answer.json["errors"].keys()) == (422, wrong.keys()), wrong
    unknown = api_as("admin", "POST", STORAGES_PATH, json={**body, "hypervisor_id": UNKNOWN_ID})
    assert (unknown.status_code, unknown.json["errors"].keys()) == (422, {"hypervisor_id"})
    assert api_as("admin", "DELETE", path).status_code == 200


def test_storage_with_disks_is_not_deleted(api_as, cast):
    disk = cast.instance().disks[0]
    answer = api_as("admin", "DELETE", f"/api/v1/hypervisor/storage/{disk.storage_id}")
    assert (answer.status_code, "Disks" in answer.json["message"]) == (409, True)


def test_hypervisor_statistics(api_as, cast):
    cast.instance()
    path = f"/api/v1/hypervisor/{cast.node.id}"
    stats = api_as("admin", "GET", f"{path}/instances/stats").json["data"]
    assert (stats["total"], stats["states"]["pending"], stats["states"]["running"]) == (1, 1, 0)
    ips = api_as("admin", "GET", f"{path}/ipv4/stats").json["data"]
    assert ips == {"used": 1, "group_total": 253, "group_available": 252}
    allocated = api_as("admin", "GET", path).json["data"]["promised"]
    assert allocated == {"instances": 1, "cpu_cores": 1, "ram": 512, "storage": 10}


def test_hypervisor_list_filters(api_as, cast, create_hypervisor):
    create_hypervisor("west-2")
    names = lambda query: [row["name"] for row in api_as("admin", "GET", f"{HYPERVISORS_PATH}?{query}").json["data"]]  # noqa: E731
    assert (names("search=west"), names("status=unknown"), names("status=up")) == (["west-2"], ["west-2"], ["node-1"])
    assert api_as("admin", "GET", f"{HYPERVISORS_PATH}?status=bad").status_code == 422


@pytest.mark.parametrize("path", [GROUPS_PATH, HYPERVISORS_PATH, STORAGES_PATH, "/api/v1/cloud-service/locations"])
def test_list_query_count_is_constant(api_as, cast, queries, path):
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
def test_unknown_id_returns_404(api_as, path):
    """ENV-10"""
    answer = api_as("admin", "GET", f"/api/v1/hypervisor/{path.format(UNKNOWN_ID)}")
    assert (answer.status_code, answer.json["success"]) == (404, False)
    assert answer.headers["X-Api-Envelope"] == "v1"
