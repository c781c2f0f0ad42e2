"""The overview of an instance: protection, traffic and cost of the month."""

import re
from decimal import Decimal

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import InstanceBackup, SecurityGroup, SecurityGroupMember, UsageMonth
from panel.services import backup_destinations, settings, usage
from panel.services.instance_backups.create import get_or_create_repository
from tests.support.instances import create_deployed_instance


@pytest.fixture
def instance(cast, run_tasks):
    return create_deployed_instance(cast, run_tasks)


def read_overview(browser, instance, area=""):
    """Return the text of the page without markup."""
    page = browser.get(f"{area}/instances/{instance.id}").text
    return " ".join(re.sub(r"<[^>]+>", " ", page[page.index('id="instance"') :]).split())


@pytest.mark.parametrize(("caller", "area"), [("owner", ""), ("admin", "/admin")])
def test_overview_shows_missing_protection(browser_as, instance, caller, area):
    text = read_overview(browser_as(caller), instance, area)
    assert "Newest backup None Not backed up automatically Backups" in text
    assert "Firewall Off: all traffic is allowed" in text
    assert "Delete protection Off" in text


def test_overview_shows_backup_firewall_and_delete_protection(browser_as, cast, instance):
    group = SecurityGroup(name="web", account_id=cast.owner.id)
    destination = backup_destinations.create(name="b", storage_type="local", config={"path": "/nowhere"})
    repository = get_or_create_repository(destination, cast.owner.id)
    names = {"name": "nightly", "recorded_name": "Shop", "recorded_hostname": "shop", "backup_type": "full"}
    backup = InstanceBackup(account_id=cast.owner.id, instance_id=instance.id, repository=repository, **names)
    backup.destination, backup.status, backup.completed_at = destination, "complete", clock.now()
    session.add_all([group, backup])
    session.flush()
    session.add(SecurityGroupMember(group_id=group.id, instance_id=instance.id))
    instance.protection_enabled = True
    session.commit()
    text = read_overview(browser_as("owner"), instance)
    assert "Newest backup None" not in text
    assert "Firewall 1 security group" in text
    assert "Delete protection On" in text


def test_overview_shows_traffic_of_the_month(browser_as, instance):
    instance.bandwidth = 100
    interface = next(row for row in instance.interfaces if row.kind == "public")
    interface.period, interface.received, interface.sent = usage.make_month_key(clock.now()), 20 * 10**9, 5 * 10**9
    session.commit()
    assert re.search(r"Traffic this month 25(\.0)? GB of 100 GB", read_overview(browser_as("owner"), instance))


def test_overview_shows_cost_of_the_month_to_those_who_see_bills(browser_as, cast, instance):
    settings.update({"billing_enabled": True})
    month = {"month": usage.make_month_key(clock.now()), "plan": "S", "price": Decimal(5), "billing_mode": "hourly"}
    row = UsageMonth(resource_id=instance.id, account_id=cast.owner.id, resource_type="instance", **month)
    row.resource_name, row.last_hour, row.hours, row.charge = "x", clock.now(), 10, Decimal("1.234567")
    session.add(row)
    session.commit()
    assert re.search(r"Cost this month \S*1\.23\S* so far", read_overview(browser_as("owner"), instance))
    assert "Cost this month" not in read_overview(browser_as("viewer"), instance)
    settings.update({"billing_enabled": False})
    session.commit()
    assert "Cost this month" not in read_overview(browser_as("owner"), instance)
