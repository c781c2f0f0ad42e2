"""The second network interface (INS-26, POST /api/v1/instance/{id}/network/{action}/secondary)."""

import json

import pytest

from panel.core.db import session
from panel.models import Address
from panel.services import subnets


@pytest.fixture
def instance(cast):
    subnets.create(cast.location, name="private", cidr="10.77.0.0/29", kind="private")
    return cast.instance()


@pytest.fixture
def switch_interface(api_as, instance):
    return lambda text, caller="admin": api_as(
        caller, "POST", f"/api/v1/instance/{instance.id}/network/{text}/secondary"
    )


def test_second_interface_is_added_and_removed(api_as, instance, switch_interface):
    """INS-26: other interfaces carry `used_bandwidth` as well."""
    answer = switch_interface("enable")
    assert answer.status_code == 200
    first, second = answer.json["data"]["interfaces"]
    assert (first["kind"], second["kind"], second["used_bandwidth"]) == ("public", "private", 0.0)
    assert [address["ip"] for address in second["addresses"]] == ["10.77.0.1"]
    assert first["mac"] != second["mac"]
    assert len(switch_interface("enable").json["data"]["interfaces"]) == 2
    for caller, path in (("owner", "/api/instance/"), ("admin", "/api/v1/instance/")):
        shown = api_as(caller, "GET", path + instance.id).json
        shown = shown.get("data", shown)
        assert [interface["used_bandwidth"] for interface in shown["interfaces"]] == [0.0, 0.0]
        assert shown["primary_interface"]["id"] == first["id"]
        assert shown["primary_private_ip"] == {"ip": "10.77.0.1"}
    assert len(switch_interface("disable").json["data"]["interfaces"]) == 1
    assert instance.private_ipv4 is None
    assert session.query(Address).filter_by(ip="10.77.0.1").one().interface_id is None
    assert len(switch_interface("disable").json["data"]["interfaces"]) == 1


def test_machine_has_both_interfaces_after_start(api_as, cast, instance, switch_interface, run_tasks, node):
    switch_interface("enable")
    assert api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id}).json[
        "task_id"
    ]
    run_tasks()
    assert instance.power == "on"
    (row,) = node.state.rows("SELECT definition FROM machines WHERE id = ?", instance.id)
    assert [nic["mac"] for nic in json.loads(row["definition"])["nics"]] == [
        interface.mac for interface in instance.interfaces
    ]
    refused = switch_interface("disable")
    assert (refused.status_code, refused.json["reason"]) == (409, "not_stopped")


def test_second_interface_refusals(api_as, cast, switch_interface, instance):
    assert switch_interface("toggle").status_code == 404
    assert switch_interface("enable", "owner").status_code in (401, 403)
    for number in range(2, 8):
        other = cast.instance()
        answer = api_as("admin", "POST", f"/api/v1/instance/{other.id}/network/enable/secondary")
        assert answer.status_code == 200, number
    refused = switch_interface("enable")
    assert (refused.status_code, refused.json["reason"]) == (422, "private_ipv4_not_available")
