"""The addresses of a machine that moves stay its own all the time."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Plan, Subnet
from panel.services import instances, subnets
from tests.migrations.conftest import again


@pytest.fixture
def machine(cast, machine, work):
    """With one of every kind of address."""
    subnets.create(session.merge(cast.location), name="routed", kind="routed", cidr="2001:db8::/48")
    subnets.create(session.merge(cast.location), name="private", kind="private", cidr="10.20.0.0/28")
    session.get(Plan, cast.plan.id).ipv6_prefixes = session.get(Plan, cast.plan.id).private_ipv4 = 1
    session.commit()
    for kind in ("routed", "private"):
        instances.ips.change(again(machine), action="add", kind=kind, actor="admin")
    session.commit()
    work()
    return again(machine)


def held(machine):
    found = session.get(Instance, machine.id, populate_existing=True)
    return {each.ip for each in (*found.addresses, *found.prefixes)}


def free(as_):
    """Every address that is listed as available; checks that the statistics count the same."""
    found = set()
    for subnet_id in session.scalars(select(Subnet.id)).all():
        path = f"/api/v1/subnet/{subnet_id}"
        listed = as_("admin", "GET", f"{path}/available-ips").json["data"]
        assert as_("admin", "GET", f"{path}/statistics").json["data"]["available"] == len(listed)
        found |= {each["ip"] for each in listed}
    return found


def test_addresses_of_a_move_are_not_available(as_, machine, move, node, other, work):
    """SUB-04, SUB-05: from its request to its end, and neither can they be reserved, released or given to others."""
    mine, before = held(machine), free(as_)
    assert len(mine) == 4
    move()
    assert again(machine).state == "migrating"
    assert (free(as_), mine & free(as_)) == (before, set())
    ips = f"/api/v1/instance/{machine.id}/ips"
    for ip in mine:
        assert as_("admin", "POST", ips, json={"action": "remove", "ips": [ip]}).status_code == 409
        [row] = [each for each in as_("admin", "GET", f"/api/v1/ips?search={ip}").json["data"] if each["ip"] == ip]
        assert as_("admin", "PATCH", f"/api/v1/ip/{row['id']}", json={"reserved": True}).status_code == 409
    work()
    assert (again(machine).state, held(machine), free(as_)) == ("running", mine, before)
    [card] = other.cards_of(machine.id)
    assert {*card["addresses"], *card["prefixes"]} == mine


def test_addresses_of_a_move_that_fails_stay_with_the_machine(as_, machine, move, node, other, work):
    """SUB-04"""
    mine, before = held(machine), free(as_)
    row = move()
    other.fault("create_disk", "refuse")
    work()
    assert again(row).status == "failed"
    assert (held(machine), free(as_)) == (mine, before)
    [card] = node.cards_of(machine.id)
    assert {*card["addresses"], *card["prefixes"]} == mine
