"""Micro VMs and profiles by the operators' API."""

import pytest

from panel.core.db import session
from panel.models import MicrovmProfile
from panel.services import hypervisors


def test_profile_is_added_changed_and_removed(api_as, cast):
    body = {"hypervisor_id": cast.node.id, "max_microvms": 10}
    added = api_as("admin", "POST", "/api/v1/microvm/profiles", json=body).json["data"]
    assert (added["hypervisor_name"], added["enabled"], added["max_microvms"]) == ("node-1", True, 10)
    assert api_as("admin", "GET", "/api/v1/microvm/profiles").json["data"] == [added]
    assert api_as("admin", "GET", "/api/v1/microvm/profiles?search=nosuch").json["data"] == []
    again = api_as("admin", "POST", "/api/v1/microvm/profiles", json=body)
    assert (again.status_code, list(again.json["errors"])) == (422, ["hypervisor_id"])
    path = f"/api/v1/microvm/profile/{added['id']}"
    changed = api_as("admin", "PATCH", path, json={"enabled": False}).json["data"]
    assert (changed["enabled"], changed["max_microvms"]) == (False, 10)
    assert api_as("admin", "PATCH", path, json={"hypervisor_id": cast.node.id}).status_code == 422
    assert api_as("admin", "DELETE", path).status_code == 200
    assert session.query(MicrovmProfile).count() == 0


def test_profile_of_unknown_hypervisor_is_refused(api_as):
    body = {"hypervisor_id": "0199c0a8-0000-7000-8000-000000000000"}
    answer = api_as("admin", "POST", "/api/v1/microvm/profiles", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["hypervisor_id"])


def test_profile_of_hypervisor_with_microvms_is_not_removed(api_as, microvm, profile, run_tasks):
    path = f"/api/v1/microvm/profile/{profile.id}"
    answer = api_as("admin", "DELETE", path)
    assert answer.status_code == 409
    api_as("admin", "DELETE", f"/api/v1/microvm/vm/{microvm.id}")
    run_tasks()
    assert api_as("admin", "DELETE", path).status_code == 200


def test_microvm_is_shown_and_destroyed_by_operator(api_as, microvm, cast, run_tasks, names_on_node):
    (row,) = api_as("admin", "GET", "/api/v1/microvm/vms").json["data"]
    assert (row["id"], row["owner"], row["hypervisor_id"]) == (microvm.id, "owner@example.com", cast.node.id)
    path = f"/api/v1/microvm/vm/{microvm.id}"
    assert api_as("admin", "GET", path).json["data"] == row
    assert api_as("admin", "GET", f"/api/v1/microvm/vms?hypervisor_id={microvm.id}").json["data"] == []
    assert api_as("admin", "DELETE", path).json["success"] is True
    run_tasks()
    assert api_as("admin", "GET", path).status_code == 404
    assert names_on_node() == (set(), set())


def test_hypervisor_with_microvms_is_not_removed(api_as, microvm, cast):
    answer = api_as("admin", "DELETE", f"/api/v1/hypervisor/{cast.node.id}")
    assert (answer.status_code, "Micro VMs" in answer.json["message"]) == (409, True)
    storage = hypervisors.get(cast.node.id).storages[0]
    assert api_as("admin", "DELETE", f"/api/v1/hypervisor/storage/{storage.id}").status_code == 409


@pytest.mark.usefixtures("microvm")
def test_list_takes_constant_number_of_queries(api_as, create_microvm, queries):
    counts = []
    for _ in range(2):
        queries.clear()
        api_as("admin", "GET", "/api/v1/microvm/vms")
        counts.append(len(queries))
        create_microvm()
    assert counts[0] == counts[1]
