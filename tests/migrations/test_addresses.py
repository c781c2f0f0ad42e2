"""The addresses of a machine that moves stay its own all the time."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Plan, Subnet
from panel.services import instances, subnets
from tests.migrations.conftest import reload


@pytest.fixture
def machine(cast, machine, run_tasks):
    """With one of every kind of address."""
    subnets.create(session.merge(cast.location), name="routed", kind="routed", cidr="2001:db8::/48")
    subnets.create(session.merge(cast.location), name="private", kind="private", cidr="10.20.0.0/28")
    session.get(Plan, cast.plan.id).ipv6_prefixes = session.get(Plan, cast.plan.id).private_ipv4 = 1
    session.commit()
    for kind in ("routed", "private"):
        instances.ips.change_addresses(reload(machine), action="add", kind=kind, actor="admin")
    session.commit()
    run_tasks()
    return reload(machine)


def held_addresses(machine):
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


def test_addresses_of_a_move_are_not_available(api_as, machine, start_migration, node, second_node, run_tasks):
    """SUB-04, SUB-05: from its request to its end, and neither can they be reserved, released or given to others."""
    mine, before = held_addresses(machine), free(api_as)
    assert len(mine) == 4
    start_migration()
    assert reload(machine).state == "migrating"
    assert (free(api_as), mine & free(api_as)) == (before, set())
    ips = f"/api/v1/instance/{machine.id}/ips"
    for ip in mine:
        assert api_as("admin", "POST", ips, json={"action": "remove", "ips": [ip]}).status_code == 409
        [row] = [each for each in api_as("admin", "GET", f"/api/v1/ips?search={ip}").json["data"] if each["ip"] == ip]
        assert api_as("admin", "PATCH", f"/api/v1/ip/{row['id']}", json={"reserved": True}).status_code == 409
    run_tasks()
    assert (reload(machine).state, held_addresses(machine), free(api_as)) == ("running", mine, before)
    [card] = second_node.nics_of(machine.id)
    assert {*card["addresses"], *card["prefixes"]} == mine


def test_addresses_of_a_move_that_fails_stay_with_the_machine(
    api_as, machine, start_migration, node, second_node, run_tasks
):
    """SUB-04"""
    mine, before = held_addresses(machine), free(api_as)
    row = start_migration()
    second_node.fault("create_disk", "refuse")
    run_tasks()
    assert reload(row).status == "failed"
    assert (held_addresses(machine), free(api_as)) == (mine, before)
    [card] = node.nics_of(machine.id)
    assert {*card["addresses"], *card["prefixes"]} == mine
