"""An instance keeps its addresses during a migration."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Plan, Subnet
from panel.services import instances, subnets
from tests.migrations.node_sync import reload


@pytest.fixture
def running_instance(cast, running_instance, run_tasks):
    """The running instance with one address of every kind."""
    subnets.create(session.merge(cast.location), name="routed", kind="routed", cidr="2001:db8::/48")
    subnets.create(session.merge(cast.location), name="private", kind="private", cidr="10.20.0.0/28")
    session.get(Plan, cast.plan.id).ipv6_prefixes = session.get(Plan, cast.plan.id).private_ipv4 = 1
    session.commit()
    for kind in ("routed", "private"):
        instances.ips.change_addresses(reload(running_instance), action="add", kind=kind, actor="admin")
    session.commit()
    run_tasks()
    return reload(running_instance)


def list_addresses(row):
    instance = session.get(Instance, row.id, populate_existing=True)
    return {address.ip for address in (*instance.addresses, *instance.prefixes)}


def list_available_addresses(api_as):
    """Return every address that is listed as available, and check that the statistics count the same."""
    addresses = set()
    for subnet_id in session.scalars(select(Subnet.id)).all():
        path = f"/api/v1/subnet/{subnet_id}"
        available = api_as("admin", "GET", f"{path}/available-ips").json["data"]
        assert api_as("admin", "GET", f"{path}/statistics").json["data"]["available"] == len(available)
        addresses |= {row["ip"] for row in available}
    return addresses


def test_addresses_of_migrating_instance_are_not_available(
    api_as, running_instance, start_migration, node, second_node, run_tasks
):
    """SUB-04, SUB-05: from the request to the end. They cannot be reserved, released or assigned to others."""
    addresses, available = list_addresses(running_instance), list_available_addresses(api_as)
    assert len(addresses) == 4
    start_migration()
    assert reload(running_instance).state == "migrating"
    assert (list_available_addresses(api_as), addresses & list_available_addresses(api_as)) == (available, set())
    ips = f"/api/v1/instance/{running_instance.id}/ips"
    for ip in addresses:
        assert api_as("admin", "POST", ips, json={"action": "remove", "ips": [ip]}).status_code == 409
        [row] = [
            listed for listed in api_as("admin", "GET", f"/api/v1/ips?search={ip}").json["data"] if listed["ip"] == ip
        ]
        assert api_as("admin", "PATCH", f"/api/v1/ip/{row['id']}", json={"reserved": True}).status_code == 409
    run_tasks()
    assert (reload(running_instance).state, list_addresses(running_instance), list_available_addresses(api_as)) == (
        "running",
        addresses,
        available,
    )
    [nic] = second_node.get_nics(running_instance.id)
    assert {*nic["addresses"], *nic["prefixes"]} == addresses


def test_failed_migration_keeps_addresses(api_as, running_instance, start_migration, node, second_node, run_tasks):
    """SUB-04"""
    addresses, available = list_addresses(running_instance), list_available_addresses(api_as)
    row = start_migration()
    second_node.fault("create_disk", "refuse")
    run_tasks()
    assert reload(row).status == "failed"
    assert (list_addresses(running_instance), list_available_addresses(api_as)) == (addresses, available)
    [nic] = node.get_nics(running_instance.id)
    assert {*nic["addresses"], *nic["prefixes"]} == addresses
