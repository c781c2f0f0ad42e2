"""Settings of hypervisor groups: switches, prices, limits."""

import re

import pytest

from panel.auth import permissions_in_use
from panel.core.db import session
from panel.models import HypervisorGroup, Instance
from panel.models.hypervisor_group_settings import GROUP_SERVICES
from panel.pages.admin.hypervisor_groups import FAMILY_OF_SWITCH
from panel.schemas.hypervisor_group_settings import SETTING_DESCRIPTIONS
from panel.services import settings, volume_plans

GROUPS_PATH = "/api/v1/hypervisor/groups"
GROUP_SWITCHES = ("enabled", *(f"{kind}_enabled" for kind in GROUP_SERVICES))
GROUP_TERMS = {
    "managed_backups_billed": True,
    "vpc_network_inbound_average": 2048,
    "vpc_network_outbound_average": 1024,
    "natgw_credit_value": 5.25,
    "natgw_bandwidth_rate": 100,
    "natgw_bandwidth_accounting": "outbound",
    "natgw_bandwidth_overage": 0.0125,
    "ipv4_credit_value": 1.5,
    "backup_mode": "incremental",
}


@pytest.fixture
def path(cast):
    return f"/api/v1/hypervisor/group/{cast.location.id}"


@pytest.fixture
def change_settings(api_as, path):
    """Return a function that changes settings of the location and returns the changed location."""

    def change(**values):
        answer = api_as("admin", "PATCH", path, json=values)
        assert answer.status_code == 200, answer.text
        return answer.json["data"]

    return change


def request_instance(as_, cast, caller="owner"):
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    return as_(caller, "POST", "/api/cloud-service/instances", json=body)


@pytest.mark.parametrize("name", GROUP_SWITCHES)
def test_group_switches_are_saved_on_create_and_update(api_as, path, name):
    """HVG-03, HVG-06"""
    group = api_as("admin", "POST", GROUPS_PATH, json={"name": "other", name: False}).json["data"]
    assert [word for word in GROUP_SWITCHES if not group[word]] == [name]
    before = api_as("admin", "GET", path).json["data"]
    assert api_as("admin", "PATCH", path, json={name: False}).status_code == 200
    after = api_as("admin", "GET", path).json["data"]
    assert {word for word in after if after[word] != before[word]} == {name, "updated_at"}
    assert api_as("admin", "PATCH", path, json={name: "false"}).json["errors"].keys() == {name}


def test_group_terms_are_saved_on_create_and_update(api_as, path):
    """HVG-04"""
    assert set(GROUP_SWITCHES) | set(GROUP_TERMS) | {"default_backup_policy_id"} == set(SETTING_DESCRIPTIONS)
    group = api_as("admin", "POST", GROUPS_PATH, json={"name": "other", **GROUP_TERMS}).json["data"]
    stored = api_as("admin", "GET", f"/api/v1/hypervisor/group/{group['id']}").json["data"]
    assert {name: stored[name] for name in GROUP_TERMS} == GROUP_TERMS
    for name, value in GROUP_TERMS.items():
        api_as("admin", "PATCH", path, json={name: value})
        assert api_as("admin", "GET", path).json["data"][name] == value
    assert api_as("admin", "PATCH", path, json={"vpc_network_inbound_average": None}).status_code == 200
    assert api_as("admin", "GET", path).json["data"]["vpc_network_inbound_average"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("natgw_credit_value", -1),
        ("natgw_bandwidth_rate", 1.5),
        ("natgw_bandwidth_accounting", "nothing"),
        ("backup_mode", "never"),
        ("vpc_network_outbound_average", 0),
        ("managed_backups_billed", None),
    ],
)
def test_invalid_group_terms_are_refused(api_as, path, name, value):
    answer = api_as("admin", "PATCH", path, json={name: value})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {name})


def test_unknown_backup_policy_is_refused(api_as, path):
    """On both routes. null removes a policy."""
    unknown = {"default_backup_policy_id": "0199c0a8-0000-7000-8000-000000000000"}
    for answer in (
        api_as("admin", "PATCH", path, json={**unknown, "display_name": "x"}),
        api_as("admin", "POST", GROUPS_PATH, json={"name": "other", **unknown}),
    ):
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {"default_backup_policy_id"})
    assert api_as("admin", "GET", path).json["data"]["display_name"] != "x"
    assert api_as("admin", "PATCH", path, json={"default_backup_policy_id": None}).status_code == 200


def test_disabled_group_refuses_new_volumes(api_as, cast, change_settings):
    """HVG-07: existing volumes are not affected."""
    settings.update({"billing_enabled": True})
    group = volume_plans.create_group(name="ssd")
    plan = volume_plans.create(group, name="1", size=1, price=1)
    session.commit()
    body = {"name": "data", "volume_plan_id": plan.id, "hypervisor_group_id": cast.location.id}
    volume = api_as("owner", "POST", "/api/storage/volumes", json=body).json["volume"]
    change_settings(enabled=False)
    answer = api_as("owner", "POST", "/api/storage/volumes", json=body)
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"hypervisor_group_id"})
    path = f"/api/storage/volume/{volume['id']}"
    assert api_as("owner", "GET", path).json["volume"]["id"] == volume["id"]
    assert api_as("owner", "DELETE", path).status_code == 200


def test_instance_without_public_networking_gets_no_address(api_as, cast, change_settings):
    """HVG-08: the switch disables only public addresses."""
    change_settings(public_networking_enabled=False)
    answer = request_instance(api_as, cast)
    assert answer.status_code == 200
    assert answer.json["instance"]["primary_public_ip"] is None
    instance = session.get(Instance, answer.json["instance"]["id"])
    assert (instance.interfaces, instance.ipv4, instance.ipv6) == ([], None, None)
    change_settings(public_networking_enabled=True)
    assert request_instance(api_as, cast).json["instance"]["primary_public_ip"]


def test_instance_without_addresses_can_be_deployed(api_as, cast, change_settings, run_tasks):
    change_settings(public_networking_enabled=False)
    instance = request_instance(api_as, cast).json["instance"]["id"]
    api_as("owner", "POST", f"/api/instance/{instance}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    assert api_as("owner", "GET", f"/api/instance/{instance}").json["state"] == "running"


@pytest.mark.parametrize("kind", [kind for kind in GROUP_SERVICES if kind != "public_networking"])
def test_group_switch_disables_only_its_service(api_as, cast, change_settings, kind):
    """HVG-08: instances can still be created."""
    change_settings(**{f"{kind}_enabled": False})
    group = session.get(HypervisorGroup, cast.location.id)
    assert [word for word in GROUP_SERVICES if not group.can_create(word)] == [kind]
    assert request_instance(api_as, cast).status_code == 200


def test_disabled_group_keeps_existing_instances_running(api_as, cast, change_settings, run_tasks):
    """HVG-07"""
    instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    change_settings(enabled=False)
    group = session.get(HypervisorGroup, cast.location.id)
    assert not any(group.can_create(kind) for kind in GROUP_SERVICES)
    assert request_instance(api_as, cast).json["errors"].keys() == {"location_id"}
    assert api_as("owner", "POST", f"/api/instance/{instance.id}/power/restart").status_code == 200
    run_tasks()
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["state"] == "running"


BACKUP_SETTING_FAMILIES = dict.fromkeys(
    ("backup_mode", "managed_backups_billed", "default_backup_policy_id"), "backup_policies"
)


def test_location_page_saves_all_settings(browser_as, cast):
    browser, path = browser_as("admin"), f"/admin/locations/{cast.location.id}"
    shown = set(re.findall(r'name="(\w+)"', browser.get(path).text))
    assert {"public_networking_enabled", "image_enabled", "ipv4_credit_value"} <= shown
    families = permissions_in_use.list_used_families()  # settings of missing features are hidden
    for name, family in {**FAMILY_OF_SWITCH, "natgw_credit_value": "nat_gateways", **BACKUP_SETTING_FAMILIES}.items():
        assert (name in shown) == (family in families), name
    sent = {name: "false" for name in GROUP_SWITCHES} | {name: str(value) for name, value in GROUP_TERMS.items()}
    sent |= {"managed_backups_billed": "true", "name": "lab", "display_name": "Laboratory"}
    assert browser.post(path, data=sent).status_code == 303
    group = session.get(HypervisorGroup, cast.location.id)
    assert not any(getattr(group, name) for name in GROUP_SWITCHES)
    as_text = lambda value: str(value).rstrip("0")  # noqa: E731
    assert {name: as_text(getattr(group, name)) for name in GROUP_TERMS} == {
        name: as_text(GROUP_TERMS[name]) for name in GROUP_TERMS
    }
