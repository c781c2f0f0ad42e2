"""The log of addresses: assignment, release, transfer, destroy, filters and retention."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import AddressLogEntry
from panel.services import address_log, subnets
from panel.services.instances import ownership, state_reports

PATH = "/api/v1/system/ip-log"


def list_log(api_as, query=""):
    answer = api_as("admin", "GET", f"{PATH}{query}")
    assert answer.status_code == 200, answer.text
    return answer.json["data"]


def test_assigned_addresses_are_logged(api_as, cast):
    instance = cast.instance(display_name="Shop")
    assert len(instance.addresses) > 0
    rows = list_log(api_as, f"?instance_id={instance.id}")
    assert {row["ip"] for row in rows} == {address.ip for address in (*instance.addresses, *instance.prefixes)}
    assert {(row["instance_name"], row["user_id"], row["email"], row["released_at"]) for row in rows} == {
        ("Shop", cast.owner.id, cast.owner.email, None)
    }


def test_removed_address_is_released_and_others_are_not(api_as, cast):
    instance = cast.instance()
    other = instance.addresses[0]
    (added,) = change_addresses(api_as, instance, "add", count=1)
    assert [row["released_at"] for row in list_log(api_as, f"?ip={added['ip']}")] == [None]
    change_addresses(api_as, instance, "remove", ips=[added["ip"]])
    assert [bool(row["released_at"]) for row in list_log(api_as, f"?ip={added['ip']}")] == [True]
    assert [row["released_at"] for row in list_log(api_as, f"?ip={other.ip}")] == [None]


def change_addresses(api_as, instance, action, **body):
    answer = api_as("admin", "POST", f"/api/v1/instance/{instance.id}/ips", json={"action": action, **body})
    assert answer.status_code == 200, answer.text
    return answer.json["data"]["ips"]


def test_addresses_of_removed_second_interface_are_released(api_as, cast):
    subnets.create(cast.location, name="private", cidr="10.77.0.0/29", kind="private")
    instance = cast.instance()
    for switch, is_released in (("enable", False), ("disable", True)):
        assert api_as("admin", "POST", f"/api/v1/instance/{instance.id}/network/{switch}/secondary").status_code == 200
        assert [bool(row["released_at"]) for row in list_log(api_as, "?ip=10.77.0.1")] == [is_released]


def test_destroyed_instance_stays_in_log(api_as, cast):
    instance = cast.instance()
    ip, instance_id = instance.addresses[0].ip, instance.id
    state_reports.on_destroyed(instance, actor="test")
    session.commit()
    (row,) = list_log(api_as, f"?ip={ip}")
    assert row["instance_id"] == instance_id
    assert row["released_at"]


def test_transfer_logs_both_customers(api_as, cast):
    instance = cast.instance()
    ownership.assign(instance, cast.outsider)
    session.commit()
    rows = list_log(api_as, f"?ip={instance.addresses[0].ip}")
    assert [(row["user_id"], bool(row["released_at"])) for row in rows] == [
        (cast.outsider.id, False),
        (cast.owner.id, True),
    ]
    assert {row["user_id"] for row in list_log(api_as, f"?user_id={cast.outsider.id}")} == {cast.outsider.id}


def test_log_answers_who_had_an_address_at_a_moment(api_as, cast):
    ip, now = "203.0.113.77", clock.now()
    for name, start, end in (("first", 10, 5), ("second", 4, None)):
        released_at = now - timedelta(days=end) if end else None
        facts = {"instance_id": name, "instance_name": name, "email": "a@example.com"}
        session.add(AddressLogEntry(ip=ip, assigned_at=now - timedelta(days=start), released_at=released_at, **facts))
    session.commit()
    for days, names in ((11, []), (7, ["first"]), (4.5, []), (1, ["second"])):
        moment = (now - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert [row["instance_name"] for row in list_log(api_as, f"?ip={ip}&at={moment}")] == names, days
    assert api_as("admin", "GET", f"{PATH}?at=yesterday").status_code == 422


@pytest.mark.parametrize(("age_days", "remains"), [(364, True), (366, False)])
def test_released_entries_are_purged_after_a_year(cast, age_days, remains):
    instance = cast.instance()
    address_log.record_released(instance)
    released_at = clock.now() - timedelta(days=age_days)
    session.query(AddressLogEntry).update({"released_at": released_at})
    address_log.purge_expired()
    assert bool(session.query(AddressLogEntry).count()) == remains
