"""Customers' micro VMs by the API.

MVM-01 to MVM-04, MVM-06 to MVM-09, MVM-11, BIL-10, HVG-08, IDT-26.
"""

import re

import pytest

from panel.core.db import session
from panel.models import Hypervisor, HypervisorGroup, MeteringRecord, Microvm
from panel.services import accounts, settings, tokens
from panel.services.microvms import images, profiles
from tests.support.microvms import register_image

UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"


def test_microvm_is_created_and_listed(call_api, microvm_body, run_tasks, node):
    """MVM-01, MVM-02"""
    answer = call_api("POST", "vms", **microvm_body, tags=["b", "a", "b"], metadata={"run": "17"})
    assert (answer.status_code, answer.json["success"]) == (200, True)
    created = answer.json["vm"]
    assert (created["state"], created["tags"], created["metadata"]) == ("starting", ["a", "b"], {"run": "17"})
    assert created["pending"]["operation"] == "microvm_create"
    run_tasks()
    (listed,) = call_api("GET", "vms").json["data"]
    assert (listed["id"], listed["state"], listed["pending"], listed["error"]) == (created["id"], "running", None, None)
    assert (listed["cpu_cores"], listed["memory_mb"], listed["disk_gb"]) == (1, 512, 2)
    assert re.fullmatch("[a-z0-9]{16}", listed["sandbox_id"])
    assert call_api("GET", f"vm/{created['id']}").json["vm"] == listed
    assert [machine.id for machine in node.machines()] == [created["id"]]


def test_microvm_of_unbilled_account_is_listed_without_billing(call_api, cast):
    """MVM-04, BIL-10"""
    settings.update({"billing_enabled": False})
    for path in ("vms", "catalog"):
        answer = call_api("GET", path)
        assert (answer.status_code, answer.json["reason"]) == (403, "billing_disabled"), path
    cast.owner.self_provisioning = True
    session.commit()
    assert {call_api("GET", path).status_code for path in ("vms", "catalog")} == {200}


def test_catalog_lists_locations_images_and_sizes(call_api, cast, image, profile):
    """MVM-03, HVG-08"""
    catalog = call_api("GET", "catalog").json
    (location,) = catalog["locations"]
    assert (location["id"], location["available"], location["locked"]) == (cast.location.id, True, False)
    assert [row["name"] for row in catalog["images"]] == ["sandbox"]
    assert catalog["sizes"][0] == {"name": "small", "cpu_cores": 1, "memory_mb": 512, "disk_gb": 2}
    session.get(HypervisorGroup, cast.location.id).microvm_enabled = False
    session.commit()
    (location,) = call_api("GET", "catalog").json["locations"]
    assert (location["available"], location["locked"]) == (False, True)


def test_location_that_is_closed_to_microvms_refuses_only_them(call_api, api_as, cast, microvm_body):
    """HVG-08"""
    session.get(HypervisorGroup, cast.location.id).microvm_enabled = False
    session.commit()
    answer = call_api("POST", "vms", **microvm_body)
    assert (answer.status_code, answer.json["reason"]) == (422, "microvm_disabled")
    assert list(answer.json["errors"]) == ["location_id"]
    assert cast.instance().group_id == cast.location.id


@pytest.mark.parametrize("case", ["no profile", "profile off", "count", "memory", "down", "capacity"])
def test_location_without_node_for_microvms_is_refused(call_api, cast, image, microvm_body, profile, case, api_as):
    """MVM-09"""
    hypervisor = session.get(Hypervisor, cast.node.id)
    assert call_api("POST", "vms", **microvm_body).status_code == 200
    if case == "no profile":
        session.delete(profile)
    elif case == "profile off":
        profile.enabled = False
    elif case == "count":
        profile.max_microvms = 1
    elif case == "memory":
        profile.max_memory_mb = 1023
    elif case == "down":
        hypervisor.status = "down"
    else:
        hypervisor.memory_mb = 1023
    session.commit()
    answer = call_api("POST", "vms", **microvm_body)
    assert (answer.status_code, answer.json["reason"]) == (422, "no_microvm_node")
    (location,) = call_api("GET", "catalog").json["locations"]
    assert (location["available"], location["locked"]) == (False, False)


def test_microvms_take_capacity_of_instances(create_microvm, cast):
    create_microvm(memory_mb=1024, cpu_cores=2, disk_gb=5)
    hypervisor = session.get(Hypervisor, cast.node.id, populate_existing=True)
    assert (hypervisor.allocation.instances, hypervisor.allocation.cpu_cores) == (0, 2)
    assert (hypervisor.allocation.ram, hypervisor.allocation.storage) == (1024, 5)


def test_microvm_is_in_no_list_of_instances(microvm, api_as):
    assert api_as("owner", "GET", "/api/instances").json["data"] == []
    assert api_as("admin", "GET", "/api/v1/instances").json["data"] == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("image_id", UNKNOWN_ID),
        ("location_id", UNKNOWN_ID),
        ("cpu_cores", 9),
        ("memory_mb", 100),
        ("memory_mb", 160),
        ("disk_gb", 65),
        ("disk_gb", 0),
        ("timeout_seconds", 0),
        ("timeout_seconds", 10**9),
        ("on_timeout", "explode"),
        ("metadata", {"a": 1}),
        ("metadata", {"a": "x" * 5000}),
        ("envs", ["A=1"]),
        ("envs", {"A=B": "1"}),
        ("tags", ["x"] * 51),
        ("api_key_id", "x"),
    ],
)
def test_invalid_microvm_is_a_field_error(call_api, microvm_body, image, field, value):
    image.min_memory_mb = 192
    session.commit()
    answer = call_api("POST", "vms", **{**microvm_body, field: value})
    assert (answer.status_code, [name.split(".")[0] for name in answer.json["errors"]]) == (422, [field])
    assert call_api("GET", "vms").json["total"] == 0


def test_envs_are_stored_encrypted_and_not_shown(create_microvm, call_api):
    microvm = create_microvm(envs={"SECRET": "hunter2"})
    assert microvm.envs == {"SECRET": "hunter2"}
    stored = session.connection().exec_driver_sql("select envs, access_token from microvms").one()
    assert "hunter2" not in stored[0]
    assert microvm.access_token not in stored[1]
    assert "hunter2" not in call_api("GET", f"vm/{microvm.id}").text


def test_foreign_microvm_is_not_found(microvm, call_api):
    """MVM-11"""
    assert call_api("GET", "vms", "outsider").json["total"] == 0
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/stop"), ("GET", "/snapshots")):
        assert call_api(method, f"vm/{microvm.id}{path}", "outsider").status_code == 404, path
    assert call_api("PATCH", f"vm/{microvm.id}", "outsider", name="mine").status_code == 404


@pytest.mark.parametrize("is_active", [True, False])
def test_sandbox_key_is_no_account_token(microvm_body, api_as, call_api, is_active):
    """MVM-08: neither a key nor something that looks like one."""
    value = call_api("POST", "api-keys", name="sdk").json["key"] if is_active else "e2b_" + "0" * 40
    for headers in ({"Authorization": f"Bearer {value}"}, {"X-API-Key": value}):
        assert api_as("nobody", "GET", "/api/microvm/vms", headers=headers).status_code == 401
        assert api_as("nobody", "POST", "/api/microvm/vms", headers=headers, json=microvm_body).status_code == 401
    assert call_api("GET", "vms").json["total"] == 0


def test_rollback_requires_the_write_scope(microvm, cast, api_as):
    """MVM-07, IDT-26"""
    for scope, expected in (("microvm:read", 403), ("instances:write", 403), ("microvm:write", 422)):
        cast.tokens["scoped"] = tokens.issue("user", name="n", account=cast.owner, scopes=[scope])[1]
        session.commit()
        path, body = f"/api/microvm/vm/{microvm.id}/rollback", {"snapshot_id": UNKNOWN_ID}
        assert api_as("scoped", "POST", path, json=body).status_code == expected, scope


def test_microvm_is_changed(microvm, call_api):
    path = f"vm/{microvm.id}"
    body = {"name": "second", "tags": ["x"], "metadata": {"a": "b"}, "timeout_seconds": 60, "on_timeout": "pause"}
    changed = call_api("PATCH", path, **body).json["vm"]
    assert {name: changed[name] for name in body} == body
    assert changed["expires_at"] is not None
    changed = call_api("PATCH", path, timeout_seconds=None).json["vm"]
    assert (changed["timeout_seconds"], changed["expires_at"], changed["name"]) == (None, None, "second")
    assert call_api("PATCH", path, state="stopped").status_code == 422


def test_destroyed_microvm_leaves_nothing(microvm, call_api, run_tasks, names_on_node, node):
    path = f"vm/{microvm.id}"
    answer = call_api("DELETE", path)
    assert (answer.status_code, bool(answer.json["task_id"])) == (200, True)
    assert call_api("GET", path).json["vm"]["state"] == "destroying"
    assert call_api("DELETE", path).json["task_id"] is None
    assert call_api("POST", f"{path}/pause").json["reason"] == "microvm_destroying"
    run_tasks()
    assert call_api("GET", path).status_code == 404
    assert (call_api("GET", "vms").json["total"], names_on_node()) == (0, (set(), set()))
    row = session.get(Microvm, microvm.id, populate_existing=True)
    assert row.ended_at is not None
    assert (row.envs, row.access_token) == ({}, "")


def test_microvm_of_priced_image_is_metered_until_it_is_destroyed(create_microvm, image, call_api, run_tasks):
    image.price = 5
    session.commit()
    microvm = create_microvm()
    record = session.query(MeteringRecord).filter_by(resource_id=microvm.id).one()
    assert (record.resource_type, record.price, record.ended_at) == ("microvm", 5, None)
    call_api("DELETE", f"vm/{microvm.id}")
    assert session.get(MeteringRecord, record.id, populate_existing=True).ended_at is not None


def test_account_with_microvm_is_not_deleted(microvm, cast, api_as, call_api, run_tasks):
    assert accounts.describe_owned_resources(cast.owner) == "2 team members, 1 micro VM"
    call_api("DELETE", f"vm/{microvm.id}")
    run_tasks()
    assert accounts.describe_owned_resources(cast.owner) == "2 team members"


def test_image_with_alias_is_found_by_all_its_names(image, cast):
    assert [images.find(name, cast.owner) for name in (image.id, "sandbox", "base")] == [image] * 3
    assert images.find("nosuch", cast.owner) is None


def test_images_are_listed(call_api, image):
    register_image("python", aliases=[])
    rows = call_api("GET", "images").json["data"]
    assert [(row["name"], row["aliases"]) for row in rows] == [("python", []), ("sandbox", ["base"])]
    assert call_api("GET", "images?search=pyth").json["total"] == 1


def test_list_is_filtered(create_microvm, call_api, cast, request_action, run_tasks):
    first, second = create_microvm(), create_microvm()
    request_action(first, "stop")
    run_tasks()
    assert [row["id"] for row in call_api("GET", "vms").json["data"]] == [second.id, first.id]
    assert [row["id"] for row in call_api("GET", "vms?state=stopped").json["data"]] == [first.id]
    assert call_api("GET", f"vms?search={second.sandbox_id}").json["data"][0]["id"] == second.id
    assert call_api("GET", f"vms?location_id={UNKNOWN_ID}").json["total"] == 0
    assert call_api("GET", "vms?state=nosuch").status_code == 422


def test_list_and_catalog_take_constant_number_of_queries(create_microvm, call_api, queries):
    counts = []
    for _ in range(2):
        create_microvm()
        for path in ("vms", "catalog"):
            queries.clear()
            call_api("GET", path)
            counts.append(len(queries))
    assert counts[:2] == counts[2:]


def test_profile_of_other_node_has_no_effect(cast, microvm_body, call_api):
    session.delete(profiles.find(cast.node))
    session.commit()
    assert call_api("POST", "vms", **microvm_body).json["reason"] == "no_microvm_node"
