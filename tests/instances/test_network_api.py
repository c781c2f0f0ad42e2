"""Addresses, reverse DNS, traffic and the public interface in the API."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Address, Event, Instance, Interface, MonthlyTraffic, Task
from tests.support.cast import UNKNOWN_ID
from worker.sync import traffic

GB = 10**9


@pytest.fixture
def deploy_instance(api_as, cast, run_tasks):
    def make(**values):
        instance = cast.instance(**values)
        api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
        run_tasks()
        return instance

    return make


def change_network(as_, instance, action, caller="owner", **body):
    prefix = "/api/v1" if caller == "admin" else "/api"
    return as_(caller, "POST", f"{prefix}/instance/{instance.id}/ips", json={"action": action, **body})


def list_addresses(as_, instance):
    return {row["ip"]: row for row in as_("owner", "GET", f"/api/instance/{instance.id}/ips").json["data"]}


# --- addresses


def test_operator_adds_and_removes_addresses_of_running_machine(api_as, cast, node, run_tasks, deploy_instance):
    instance = deploy_instance()
    before = [address.ip for address in session.get(Instance, instance.id).addresses]
    answer = change_network(api_as, instance, "add", "admin", ips=["10.9.0.77"])
    assert [ip["ip"] for ip in answer.json["data"]["ips"]] == ["10.9.0.77"]
    addresses = change_network(api_as, instance, "add", "admin", family=6, count=2).json["data"]["ips"]
    run_tasks()
    [card] = node.get_nics(instance.id)
    assert set(card["addresses"]) == {*before, "10.9.0.77", *(address["ip"] for address in addresses)}
    assert change_network(api_as, instance, "remove", "admin", ips=["10.9.0.77", addresses[0]["id"]]).status_code == 200
    run_tasks()
    [card] = node.get_nics(instance.id)
    assert set(card["addresses"]) == {*before, addresses[1]["ip"]}
    assert session.scalar(select(Address.interface_id).where(Address.ip == "10.9.0.77")) is None


def test_allocated_address_is_not_available(api_as, cast):
    """SUB-01, SUB-02, SUB-05: free, reserved and in use; the statistics agree with the list."""
    instance = cast.instance()
    [subnet] = [row for row in api_as("admin", "GET", "/api/v1/subnets").json["data"] if row["family"] == 4]

    def list_free():
        listed = api_as("admin", "GET", f"/api/v1/subnet/{subnet['id']}/available-ips").json["data"]
        counted = api_as("admin", "GET", f"/api/v1/subnet/{subnet['id']}/statistics").json["data"]["available"]
        assert counted == len(listed)
        return {row["ip"]: row["id"] for row in listed}

    assert "10.9.0.77" in list_free()
    change_network(api_as, instance, "add", "admin", ips=["10.9.0.77"])
    assert "10.9.0.77" not in list_free()
    api_as("admin", "PATCH", f"/api/v1/ip/{list_free()['10.9.0.78']}", json={"reserved": True})
    assert "10.9.0.78" not in list_free()
    refused = change_network(api_as, instance, "add", "admin", ips=["10.9.0.78"])
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["ips"])
    change_network(api_as, instance, "remove", "admin", ips=["10.9.0.77"])
    assert "10.9.0.77" in list_free()


@pytest.mark.parametrize("wrong", ["10.9.0.1", "192.0.2.1", UNKNOWN_ID])
def test_unavailable_address_is_refused(api_as, cast, wrong):
    answer = change_network(api_as, cast.instance(), "add", "admin", ips=[wrong])
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ips"])


def test_address_in_use_is_refused(api_as, cast):
    instance = cast.instance()
    answer = change_network(api_as, cast.instance(), "add", "admin", ips=[instance.ipv4])
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ips"])


def test_customer_addresses_are_limited_by_plan(api_as, cast):
    cast.plan.ipv4 = 2
    session.commit()
    instance = cast.instance()
    first, second = list(list_addresses(api_as, instance))[:2]
    refused = change_network(api_as, instance, "add")
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["count"])
    assert change_network(api_as, instance, "remove", ips=[second]).status_code == 200
    assert second not in list_addresses(api_as, instance)
    named = change_network(api_as, instance, "add", ips=["10.9.0.99"]).json["ips"]
    assert [address["ip"] for address in named] != ["10.9.0.99"], "customers get the next free address"
    assert session.get(Instance, instance.id).ipv4 == first


def test_primary_address_is_changed_and_removed_last(api_as, cast):
    cast.plan.ipv4 = 2
    session.commit()
    instance = cast.instance()
    first, second = [ip for ip in list_addresses(api_as, instance) if ":" not in ip]
    assert change_network(api_as, instance, "remove", ips=[first]).status_code == 422
    answer = change_network(api_as, instance, "set-primary", ips=[second]).json
    assert answer["ips"][0]["is_primary"] is True
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["primary_public_ip"] == {"ip": second}
    assert [row["is_primary"] for row in list_addresses(api_as, instance).values() if row["family"] == 4] == [
        False,
        True,
    ]
    assert change_network(api_as, instance, "remove", ips=[first]).status_code == 200
    assert change_network(api_as, instance, "remove", ips=[second]).status_code == 200
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["primary_public_ip"] is None
    assert change_network(api_as, instance, "add").json["ips"][0]["is_primary"] is True


def test_address_of_other_account_cannot_be_changed(api_as, cast):
    own_instance, foreign_instance = cast.instance(), cast.instance("outsider")
    for action in ("remove", "set-primary"):
        answer = change_network(api_as, own_instance, action, ips=[foreign_instance.ipv4])
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["ips"])
        assert change_network(api_as, foreign_instance, action, ips=[foreign_instance.ipv4]).status_code == 404
    assert change_network(api_as, own_instance, "steal").status_code == 422
    assert change_network(api_as, own_instance, "remove").status_code == 422


def test_add_without_free_addresses_is_refused(api_as, cast):
    """INS-71: the same reason as for a create."""
    instance = cast.instance()
    session.query(Address).filter(Address.interface_id.is_(None)).update({"reserved": True})
    session.commit()
    answer = change_network(api_as, instance, "add", "admin")
    assert (answer.status_code, answer.json["reason"]) == (422, "ipv4_not_available")


# --- reverse DNS


def test_rdns_is_set_and_cleared_with_release(api_as, cast):
    instance = cast.instance()
    address = list_addresses(api_as, instance)[instance.ipv4]
    path = f"/api/instance/{instance.id}/ip/{address['id']}/rdns"
    for name in ("shop.example.com", "_a.b-c.example.com."):
        answer = api_as("owner", "POST", path, json={"rdns": name}).json
        assert (answer["success"], answer["ip"]["rdns"]) == (True, name)
    for wrong in ("a b", "-x.example.com", "a--b.example.com", 7):
        assert api_as("owner", "POST", path, json={"rdns": wrong}).status_code == 422
    assert api_as("outsider", "POST", path, json={"rdns": "x"}).status_code == 404
    listed = api_as("admin", "GET", f"/api/v1/ips?search={instance.ipv4}").json["data"]
    assert listed[0]["rdns"] == "_a.b-c.example.com."
    other = cast.instance()
    foreign = f"/api/instance/{other.id}/ip/{address['id']}/rdns"
    assert api_as("owner", "POST", foreign, json={"rdns": "x"}).status_code == 404
    assert api_as("owner", "POST", path, json={"rdns": None}).json["ip"]["rdns"] is None
    admin = f"/api/v1/instance/{instance.id}/ips/{address['id']}/rdns"
    assert api_as("admin", "PUT", admin, json={"rdns": "a.example.com"}).json["data"]["rdns"] == "a.example.com"
    assert api_as("admin", "POST", f"/api/v1/ip/{address['id']}/rdns", json={"rdns": ""}).json["data"]["rdns"] is None
    api_as("admin", "PUT", admin, json={"rdns": "old.example.com"})
    change_network(api_as, instance, "remove", "admin", ips=[address["id"]])
    assert api_as("admin", "POST", f"/api/v1/ip/{address['id']}/rdns", json={"rdns": "x"}).status_code == 409
    change_network(api_as, other, "add", "admin", ips=[address["id"]])
    assert list_addresses(api_as, other)[address["ip"]]["rdns"] is None


def test_rdns_is_cleared_for_next_instance(api_as, cast, run_tasks):
    instance = cast.instance()
    address = list_addresses(api_as, instance)[instance.ipv4]
    api_as("owner", "POST", f"/api/instance/{instance.id}/ip/{address['id']}/rdns", json={"rdns": "old.example.com"})
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    run_tasks()
    again = cast.instance("outsider")
    assert again.ipv4 == address["ip"]
    assert session.get(Address, address["id"]).rdns is None


# --- traffic


@pytest.fixture
def set_clock(monkeypatch):
    def move(*when):
        moment = datetime(*when, tzinfo=UTC)
        monkeypatch.setattr(clock, "now", lambda: moment)

    return move


def add_traffic(instance, received, sent=0):
    card = session.get(Instance, instance.id).interfaces[0]
    card.received, card.sent = received, sent
    session.commit()


def get_bandwidth(as_, instance):
    return as_("owner", "GET", f"/api/instance/{instance.id}/bandwidth").json["bandwidth"]


def enforce_traffic_quotas(work):
    traffic.enforce_quotas()
    session.commit()
    work()


def test_bandwidth_shows_traffic_of_current_month(api_as, cast):
    """INS-25, INS-26, INS-27"""
    instance = cast.instance()
    add_traffic(instance, 1_234_567_890, 5_000_000)
    shown = api_as("owner", "GET", f"/api/instance/{instance.id}").json
    assert shown["primary_interface"]["used_bandwidth"] == 1.24
    assert [card["used_bandwidth"] for card in shown["interfaces"]] == [1.24]
    assert "used_bandwidth" not in shown
    assert "used_bandwidth" not in api_as("owner", "GET", "/api/instances").json["data"][0]
    assert "used_bandwidth" not in api_as("admin", "GET", f"/api/v1/instance/{instance.id}").json["data"]
    bandwidth = get_bandwidth(api_as, instance)
    assert (bandwidth["received"], bandwidth["sent"], bandwidth["used_bandwidth"]) == (1_234_567_890, 5_000_000, 1.24)
    assert (bandwidth["bandwidth"], bandwidth["overage"], bandwidth["off"], bandwidth["history"]) == (
        1000,
        "none",
        None,
        [],
    )
    assert api_as("outsider", "GET", f"/api/instance/{instance.id}/bandwidth").status_code == 404


def test_traffic_resets_monthly_and_keeps_history(api_as, cast, set_clock, run_tasks):
    set_clock(2026, 12, 31, 23, 59)
    instance = cast.instance()
    add_traffic(instance, 3 * GB, GB)
    set_clock(2027, 1, 1)
    assert get_bandwidth(api_as, instance)["used_bandwidth"] == 0, "also before the quotas are enforced"
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").json["primary_interface"]["used_bandwidth"] == 0
    for _ in range(2):
        enforce_traffic_quotas(run_tasks)
    bandwidth = get_bandwidth(api_as, instance)
    assert (bandwidth["month"], bandwidth["starts_at"], bandwidth["ends_at"]) == (
        "2027-01",
        "2027-01-01T00:00:00Z",
        "2027-02-01T00:00:00Z",
    )
    assert bandwidth["history"] == [{"month": "2026-12", "received": 3 * GB, "sent": GB}]
    assert (bandwidth["received"], bandwidth["sent"]) == (0, 0)
    assert len(session.scalars(select(MonthlyTraffic)).all()) == 1


def test_traffic_overage_disconnects_network_until_next_month(
    api_as, cast, node, set_clock, run_tasks, deploy_instance
):
    set_clock(2026, 11, 10)
    cast.plan.overage, cast.plan.bandwidth = "network", 10
    session.commit()
    instance, modest = deploy_instance(), deploy_instance()
    add_traffic(instance, 9 * GB, GB - 1)
    enforce_traffic_quotas(run_tasks)
    assert node.get_nics(instance.id)[0]["connected"] is True
    add_traffic(instance, 9 * GB, GB)
    enforce_traffic_quotas(run_tasks)
    assert node.get_nics(instance.id)[0]["connected"] is False
    assert node.get_nics(modest.id)[0]["connected"] is True
    shown = api_as("owner", "GET", f"/api/instance/{instance.id}").json
    assert (shown["state"], shown["suspended_reason"], shown["primary_interface"]["off"]) == (
        "running",
        None,
        "traffic",
    )
    assert get_bandwidth(api_as, instance)["off"] == "traffic"
    assert not session.scalar(select(Event).where(Event.kind == "instance.suspended"))
    count = len(session.scalars(select(Task)).all())
    enforce_traffic_quotas(run_tasks)
    assert len(session.scalars(select(Task)).all()) == count, "disconnected only once"
    for caller, path in (("owner", "/api"), ("admin", "/api/v1")):
        answer = api_as(caller, "POST", f"{path}/instance/{instance.id}/network/public/enable")
        assert answer.status_code == 409
    api_as("owner", "POST", f"/api/instance/{instance.id}/power/poweroff")
    run_tasks()
    api_as("owner", "POST", f"/api/instance/{instance.id}/power/start")
    run_tasks()
    assert node.get_nics(instance.id)[0]["connected"] is False, "a restart does not reconnect"
    set_clock(2026, 12, 1)
    enforce_traffic_quotas(run_tasks)
    assert node.get_nics(instance.id)[0]["connected"] is True
    assert get_bandwidth(api_as, instance)["off"] is None


def test_operator_reconnects_by_reset_or_higher_limit(api_as, cast, node, run_tasks, deploy_instance):
    cast.plan.overage, cast.plan.bandwidth = "network", 10
    session.commit()
    instance = deploy_instance()
    admin = f"/api/v1/instance/{instance.id}"
    for method, path, body in (
        ("POST", "bandwidth/reset", None),
        ("PUT", "modify/bandwidth", {"bandwidth": 50}),
    ):
        add_traffic(instance, 20 * GB)
        enforce_traffic_quotas(run_tasks)
        assert node.get_nics(instance.id)[0]["connected"] is False
        answer = api_as("admin", method, f"{admin}/{path}", json=body)
        assert (answer.status_code, answer.json["data"]["off"]) == (200, None)
        run_tasks()
        assert node.get_nics(instance.id)[0]["connected"] is True
    assert api_as("admin", "GET", f"{admin}/bandwidth").json["data"]["bandwidth"] == 50
    api_as("admin", "PUT", f"{admin}/modify/bandwidth", json={"bandwidth": 5})
    run_tasks()
    assert node.get_nics(instance.id)[0]["connected"] is False


def test_traffic_overage_suspends_instance(api_as, cast, node, run_tasks, deploy_instance):
    """WHK-30: the event has the reason `network`."""
    cast.plan.overage, cast.plan.bandwidth = "instance", 10
    session.commit()
    instance = deploy_instance()
    add_traffic(instance, 20 * GB)
    enforce_traffic_quotas(run_tasks)
    shown = api_as("owner", "GET", f"/api/instance/{instance.id}").json
    assert (shown["state"], shown["suspended_reason"]) == ("suspended", "network")
    event = session.scalar(select(Event).where(Event.kind == "instance.suspended"))
    assert event.data == {"reason": "network"}
    api_as("admin", "POST", f"/api/v1/instance/{instance.id}/bandwidth/reset")
    run_tasks()
    shown = api_as("owner", "GET", f"/api/instance/{instance.id}").json
    assert (shown["state"], shown["primary_interface"]["off"]) == ("running", None)


def test_traffic_without_policy_or_limit_is_not_enforced(api_as, cast, node, run_tasks, deploy_instance):
    instance = deploy_instance()
    add_traffic(instance, 10**15)
    enforce_traffic_quotas(run_tasks)
    cast.plan.overage = "network"
    session.get(Instance, instance.id).bandwidth = 0
    session.commit()
    enforce_traffic_quotas(run_tasks)
    assert node.get_nics(instance.id)[0]["connected"] is True


# --- port speed and public interface


def test_port_speed_of_running_machine_is_changed(api_as, node, run_tasks, deploy_instance):
    instance = deploy_instance()
    body = {"port_speed": 50}
    assert api_as("admin", "PUT", f"/api/v1/instance/{instance.id}/modify/bandwidth", json=body).status_code == 200
    run_tasks()
    [card] = node.get_nics(instance.id)
    assert (card["inbound_mbps"], card["outbound_mbps"]) == (50, 50)


def test_operator_disconnects_public_network(api_as, node, run_tasks, deploy_instance):
    instance = deploy_instance()
    enable = f"/api/instance/{instance.id}/network/public/enable"
    for _ in range(2):
        answer = api_as("owner", "POST", enable).json
        assert (answer["success"], answer["interface"]["kind"], answer["interface"]["off"]) == (True, "public", None)
    assert api_as("admin", "POST", f"/api/v1/instance/{instance.id}/network/public/disable").status_code == 200
    run_tasks()
    assert node.get_nics(instance.id)[0]["connected"] is False
    assert api_as("owner", "POST", enable).status_code == 409
    back = api_as("admin", "POST", f"/api/v1/instance/{instance.id}/network/public/enable").json["data"]
    assert back["off"] is None
    run_tasks()
    assert node.get_nics(instance.id)[0]["connected"] is True
    assert len(session.scalars(select(Interface).where(Interface.instance_id == instance.id)).all()) == 1
