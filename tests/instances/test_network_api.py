"""Addresses, reverse names, traffic and the public card by the API."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Address, Event, Instance, Interface, Task, Traffic
from worker.sync import traffic

GB = 10**9
UNKNOWN = "0199c0a8-0000-7000-8000-000000000000"


@pytest.fixture
def deployed(as_, cast, work):
    def make(**values):
        instance = cast.instance(**values)
        as_("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
        work()
        return instance

    return make


def change(as_, instance, action, who="owner", **body):
    prefix = "/api/v1" if who == "admin" else "/api"
    return as_(who, "POST", f"{prefix}/instance/{instance.id}/ips", json={"action": action, **body})


def ips(as_, instance):
    return {row["ip"]: row for row in as_("owner", "GET", f"/api/instance/{instance.id}/ips").json["data"]}


# --- addresses


def test_an_operator_gives_and_takes_addresses_while_the_machine_runs(as_, cast, node, work, deployed):
    instance = deployed()
    before = [address.ip for address in session.get(Instance, instance.id).addresses]
    answer = change(as_, instance, "add", "admin", ips=["10.9.0.77"])
    assert [each["ip"] for each in answer.json["data"]["ips"]] == ["10.9.0.77"]
    more = change(as_, instance, "add", "admin", family=6, count=2).json["data"]["ips"]
    work()
    [card] = node.cards_of(instance.id)
    assert set(card["addresses"]) == {*before, "10.9.0.77", *(each["ip"] for each in more)}
    assert change(as_, instance, "remove", "admin", ips=["10.9.0.77", more[0]["id"]]).status_code == 200
    work()
    [card] = node.cards_of(instance.id)
    assert set(card["addresses"]) == {*before, more[1]["ip"]}
    assert session.scalar(select(Address.interface_id).where(Address.ip == "10.9.0.77")) is None


def test_a_given_address_leaves_the_list_of_free_ones(as_, cast):
    """SUB-01, SUB-02, SUB-05: free, reserved and held, and the figures agree with the list."""
    instance = cast.instance()
    [subnet] = [row for row in as_("admin", "GET", "/api/v1/subnets").json["data"] if row["family"] == 4]

    def free():
        listed = as_("admin", "GET", f"/api/v1/subnet/{subnet['id']}/available-ips").json["data"]
        counted = as_("admin", "GET", f"/api/v1/subnet/{subnet['id']}/statistics").json["data"]["available"]
        assert counted == len(listed)
        return {row["ip"]: row["id"] for row in listed}

    assert "10.9.0.77" in free()
    change(as_, instance, "add", "admin", ips=["10.9.0.77"])
    assert "10.9.0.77" not in free()
    as_("admin", "PATCH", f"/api/v1/ip/{free()['10.9.0.78']}", json={"reserved": True})
    assert "10.9.0.78" not in free()
    refused = change(as_, instance, "add", "admin", ips=["10.9.0.78"])
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["ips"])
    change(as_, instance, "remove", "admin", ips=["10.9.0.77"])
    assert "10.9.0.77" in free()


@pytest.mark.parametrize("wrong", ["10.9.0.1", "192.0.2.1", UNKNOWN])
def test_an_address_that_is_not_to_be_had(as_, cast, wrong):
    answer = change(as_, cast.instance(), "add", "admin", ips=[wrong])
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ips"])


def test_an_address_is_given_once(as_, cast):
    held = cast.instance()
    answer = change(as_, cast.instance(), "add", "admin", ips=[held.ipv4])
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ips"])


def test_customers_have_what_the_plan_comes_with(as_, cast):
    cast.plan.ipv4 = 2
    session.commit()
    instance = cast.instance()
    first, second = list(ips(as_, instance))[:2]
    refused = change(as_, instance, "add")
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["count"])
    assert change(as_, instance, "remove", ips=[second]).status_code == 200
    assert second not in ips(as_, instance)
    named = change(as_, instance, "add", ips=["10.9.0.99"]).json["ips"]
    assert [each["ip"] for each in named] != ["10.9.0.99"], "customers take what comes next"
    assert session.get(Instance, instance.id).ipv4 == first


def test_the_primary_address_can_be_changed_and_goes_last(as_, cast):
    cast.plan.ipv4 = 2
    session.commit()
    instance = cast.instance()
    first, second = [ip for ip in ips(as_, instance) if ":" not in ip]
    assert change(as_, instance, "remove", ips=[first]).status_code == 422
    answer = change(as_, instance, "set-primary", ips=[second]).json
    assert answer["ips"][0]["is_primary"] is True
    assert as_("owner", "GET", f"/api/instance/{instance.id}").json["primary_public_ip"] == {"ip": second}
    assert [row["is_primary"] for row in ips(as_, instance).values() if row["family"] == 4] == [False, True]
    assert change(as_, instance, "remove", ips=[first]).status_code == 200
    assert change(as_, instance, "remove", ips=[second]).status_code == 200
    assert as_("owner", "GET", f"/api/instance/{instance.id}").json["primary_public_ip"] is None
    assert change(as_, instance, "add").json["ips"][0]["is_primary"] is True


def test_addresses_of_others_are_not_touched(as_, cast):
    mine, theirs = cast.instance(), cast.instance("outsider")
    for action in ("remove", "set-primary"):
        answer = change(as_, mine, action, ips=[theirs.ipv4])
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["ips"])
        assert change(as_, theirs, action, ips=[theirs.ipv4]).status_code == 404
    assert change(as_, mine, "steal").status_code == 422
    assert change(as_, mine, "remove").status_code == 422


def test_a_full_location_has_no_more(as_, cast):
    """INS-71: the same words as at a create."""
    instance = cast.instance()
    session.query(Address).filter(Address.interface_id.is_(None)).update({"reserved": True})
    session.commit()
    answer = change(as_, instance, "add", "admin")
    assert (answer.status_code, answer.json["reason"]) == (422, "ipv4_not_available")


# --- reverse names


def test_a_reverse_name_is_noted_and_leaves_with_its_holder(as_, cast):
    instance = cast.instance()
    address = ips(as_, instance)[instance.ipv4]
    path = f"/api/instance/{instance.id}/ip/{address['id']}/rdns"
    for name in ("shop.example.com", "_a.b-c.example.com."):
        answer = as_("owner", "POST", path, json={"rdns": name}).json
        assert (answer["success"], answer["ip"]["rdns"]) == (True, name)
    for wrong in ("a b", "-x.example.com", "a--b.example.com", 7):
        assert as_("owner", "POST", path, json={"rdns": wrong}).status_code == 422
    assert as_("outsider", "POST", path, json={"rdns": "x"}).status_code == 404
    listed = as_("admin", "GET", f"/api/v1/ips?search={instance.ipv4}").json["data"]
    assert listed[0]["rdns"] == "_a.b-c.example.com."
    other = cast.instance()
    foreign = f"/api/instance/{other.id}/ip/{address['id']}/rdns"
    assert as_("owner", "POST", foreign, json={"rdns": "x"}).status_code == 404
    assert as_("owner", "POST", path, json={"rdns": None}).json["ip"]["rdns"] is None
    admin = f"/api/v1/instance/{instance.id}/ips/{address['id']}/rdns"
    assert as_("admin", "PUT", admin, json={"rdns": "a.example.com"}).json["data"]["rdns"] == "a.example.com"
    assert as_("admin", "POST", f"/api/v1/ip/{address['id']}/rdns", json={"rdns": ""}).json["data"]["rdns"] is None
    as_("admin", "PUT", admin, json={"rdns": "old.example.com"})
    change(as_, instance, "remove", "admin", ips=[address["id"]])
    assert as_("admin", "POST", f"/api/v1/ip/{address['id']}/rdns", json={"rdns": "x"}).status_code == 409
    change(as_, other, "add", "admin", ips=[address["id"]])
    assert ips(as_, other)[address["ip"]]["rdns"] is None


def test_a_new_holder_begins_without_the_name_of_the_last(as_, cast, work):
    instance = cast.instance()
    address = ips(as_, instance)[instance.ipv4]
    as_("owner", "POST", f"/api/instance/{instance.id}/ip/{address['id']}/rdns", json={"rdns": "old.example.com"})
    as_("owner", "DELETE", f"/api/cloud-service/instances/{instance.id}")
    work()
    again = cast.instance("outsider")
    assert again.ipv4 == address["ip"]
    assert session.get(Address, address["id"]).rdns is None


# --- traffic


@pytest.fixture
def at(monkeypatch):
    def move(*when):
        moment = datetime(*when, tzinfo=UTC)
        monkeypatch.setattr(clock, "now", lambda: moment)

    return move


def passed(instance, received, sent=0):
    card = session.get(Instance, instance.id).interfaces[0]
    card.received, card.sent = received, sent
    session.commit()


def bandwidth(as_, instance):
    return as_("owner", "GET", f"/api/instance/{instance.id}/bandwidth").json["bandwidth"]


def look(work):
    traffic.look()
    session.commit()
    work()


def test_the_traffic_of_a_period(as_, cast):
    """INS-25, INS-26, INS-27"""
    instance = cast.instance()
    passed(instance, 1_234_567_890, 5_000_000)
    shown = as_("owner", "GET", f"/api/instance/{instance.id}").json
    assert shown["primary_interface"]["used_bandwidth"] == 1.24
    assert [card["used_bandwidth"] for card in shown["interfaces"]] == [1.24]
    assert "used_bandwidth" not in shown
    assert "used_bandwidth" not in as_("owner", "GET", "/api/instances").json["data"][0]
    assert "used_bandwidth" not in as_("admin", "GET", f"/api/v1/instance/{instance.id}").json["data"]
    found = bandwidth(as_, instance)
    assert (found["received"], found["sent"], found["used_bandwidth"]) == (1_234_567_890, 5_000_000, 1.24)
    assert (found["bandwidth"], found["overage"], found["off"], found["history"]) == (1000, "none", None, [])
    assert as_("outsider", "GET", f"/api/instance/{instance.id}/bandwidth").status_code == 404


def test_a_new_month_counts_anew_and_the_last_is_history(as_, cast, at, work):
    at(2026, 12, 31, 23, 59)
    instance = cast.instance()
    passed(instance, 3 * GB, GB)
    at(2027, 1, 1)
    assert bandwidth(as_, instance)["used_bandwidth"] == 0, "also before anybody has looked"
    assert as_("owner", "GET", f"/api/instance/{instance.id}").json["primary_interface"]["used_bandwidth"] == 0
    for _ in range(2):
        look(work)
    found = bandwidth(as_, instance)
    assert (found["month"], found["starts_at"], found["ends_at"]) == (
        "2027-01",
        "2027-01-01T00:00:00Z",
        "2027-02-01T00:00:00Z",
    )
    assert found["history"] == [{"month": "2026-12", "received": 3 * GB, "sent": GB}]
    assert (found["received"], found["sent"]) == (0, 0)
    assert len(session.scalars(select(Traffic)).all()) == 1


def test_who_has_used_up_the_allowance_is_cut_off_until_the_next_month(as_, cast, node, at, work, deployed):
    at(2026, 11, 10)
    cast.plan.overage, cast.plan.bandwidth = "network", 10
    session.commit()
    instance, modest = deployed(), deployed()
    passed(instance, 9 * GB, GB - 1)
    look(work)
    assert node.cards_of(instance.id)[0]["connected"] is True
    passed(instance, 9 * GB, GB)
    look(work)
    assert node.cards_of(instance.id)[0]["connected"] is False
    assert node.cards_of(modest.id)[0]["connected"] is True
    shown = as_("owner", "GET", f"/api/instance/{instance.id}").json
    assert (shown["state"], shown["suspended_reason"], shown["primary_interface"]["off"]) == (
        "running",
        None,
        "traffic",
    )
    assert bandwidth(as_, instance)["off"] == "traffic"
    assert not session.scalar(select(Event).where(Event.kind == "instance.suspended"))
    count = len(session.scalars(select(Task)).all())
    look(work)
    assert len(session.scalars(select(Task)).all()) == count, "once is enough"
    for who, path in (("owner", "/api"), ("admin", "/api/v1")):
        answer = as_(who, "POST", f"{path}/instance/{instance.id}/network/public/enable")
        assert answer.status_code == 409
    as_("owner", "POST", f"/api/instance/{instance.id}/power/poweroff")
    work()
    as_("owner", "POST", f"/api/instance/{instance.id}/power/start")
    work()
    assert node.cards_of(instance.id)[0]["connected"] is False, "a restart is no way around it"
    at(2026, 12, 1)
    look(work)
    assert node.cards_of(instance.id)[0]["connected"] is True
    assert bandwidth(as_, instance)["off"] is None


def test_an_operator_lets_back_in_by_resetting_or_allowing_more(as_, cast, node, work, deployed):
    cast.plan.overage, cast.plan.bandwidth = "network", 10
    session.commit()
    instance = deployed()
    admin = f"/api/v1/instance/{instance.id}"
    for method, path, body in (
        ("POST", "bandwidth/reset", None),
        ("PUT", "modify/bandwidth", {"bandwidth": 50}),
    ):
        passed(instance, 20 * GB)
        look(work)
        assert node.cards_of(instance.id)[0]["connected"] is False
        answer = as_("admin", method, f"{admin}/{path}", json=body)
        assert (answer.status_code, answer.json["data"]["off"]) == (200, None)
        work()
        assert node.cards_of(instance.id)[0]["connected"] is True
    assert as_("admin", "GET", f"{admin}/bandwidth").json["data"]["bandwidth"] == 50
    as_("admin", "PUT", f"{admin}/modify/bandwidth", json={"bandwidth": 5})
    work()
    assert node.cards_of(instance.id)[0]["connected"] is False


def test_a_plan_may_suspend_the_whole_instance(as_, cast, node, work, deployed):
    """WHK-30: told with the reason `network`."""
    cast.plan.overage, cast.plan.bandwidth = "instance", 10
    session.commit()
    instance = deployed()
    passed(instance, 20 * GB)
    look(work)
    shown = as_("owner", "GET", f"/api/instance/{instance.id}").json
    assert (shown["state"], shown["suspended_reason"]) == ("suspended", "network")
    told = session.scalar(select(Event).where(Event.kind == "instance.suspended"))
    assert told.data == {"reason": "network"}
    as_("admin", "POST", f"/api/v1/instance/{instance.id}/bandwidth/reset")
    work()
    shown = as_("owner", "GET", f"/api/instance/{instance.id}").json
    assert (shown["state"], shown["primary_interface"]["off"]) == ("running", None)


def test_without_a_policy_or_a_limit_nothing_happens(as_, cast, node, work, deployed):
    instance = deployed()
    passed(instance, 10**15)
    look(work)
    cast.plan.overage = "network"
    session.get(Instance, instance.id).bandwidth = 0
    session.commit()
    look(work)
    assert node.cards_of(instance.id)[0]["connected"] is True


# --- speed and the public card


def test_the_speed_of_a_running_machine_is_changed(as_, node, work, deployed):
    instance = deployed()
    body = {"port_speed": 50}
    assert as_("admin", "PUT", f"/api/v1/instance/{instance.id}/modify/bandwidth", json=body).status_code == 200
    work()
    [card] = node.cards_of(instance.id)
    assert (card["inbound_mbps"], card["outbound_mbps"]) == (50, 50)


def test_an_operator_cuts_off_the_public_network(as_, node, work, deployed):
    instance = deployed()
    enable = f"/api/instance/{instance.id}/network/public/enable"
    for _ in range(2):
        answer = as_("owner", "POST", enable).json
        assert (answer["success"], answer["interface"]["kind"], answer["interface"]["off"]) == (True, "public", None)
    assert as_("admin", "POST", f"/api/v1/instance/{instance.id}/network/public/disable").status_code == 200
    work()
    assert node.cards_of(instance.id)[0]["connected"] is False
    assert as_("owner", "POST", enable).status_code == 409
    back = as_("admin", "POST", f"/api/v1/instance/{instance.id}/network/public/enable").json["data"]
    assert back["off"] is None
    work()
    assert node.cards_of(instance.id)[0]["connected"] is True
    assert len(session.scalars(select(Interface).where(Interface.instance_id == instance.id)).all()) == 1
