"""The revenue of the month on the operators' overview."""

from decimal import Decimal

import pytest
from lxml import html

from panel.auth import permissions
from panel.core import clock
from panel.core.db import session
from panel.models import Account, UsageMonth
from panel.services import usage, workers
from tests.support.billing_clock import billing_enabled  # noqa: F401  (fixture)

REVENUE_TILE = "//a[contains(@class, 'tile') and @href='/admin/billing']"


@pytest.fixture(autouse=True)
def charges(monkeypatch, cast):
    """Charges of two customers in this month, and of one in an earlier month."""
    monkeypatch.setattr(workers, "count_alive", lambda: 2)
    month = usage.make_month_key(clock.now())
    for resource, account, charged_month, charge in (
        ("web", cast.owner, month, "3.682192"),
        ("db", cast.outsider, month, "10.50"),
        ("old", cast.owner, "2020-01", "99"),
    ):
        row = UsageMonth(resource_id=resource, month=charged_month, account_id=account.id, charge=Decimal(charge))
        row.resource_type, row.resource_name, row.plan, row.price = "instance", resource, "S", Decimal(4)
        row.billing_mode, row.last_hour = "cloud_service", usage.truncate_to_hour(clock.now())
        session.add(row)
    session.commit()


@pytest.fixture
def find_tiles(browser_as):
    """Return a function that loads the overview and returns the texts of the tile of the revenue."""
    browser = browser_as("admin")
    return lambda: [
        " ".join(tile.text_content().split())
        for tile in html.fromstring(browser.get("/admin").text).xpath(REVENUE_TILE)
    ]


def test_overview_shows_charges_of_this_month_while_billing_is_on(find_tiles, billing_enabled, queries):
    find_tiles()
    queries.clear()
    (tile,) = find_tiles()
    assert "14.18" in tile
    assert "revenue this month" in tile
    assert len([statement for statement in queries if "usage_months" in statement]) == 1


def test_overview_has_no_revenue_while_billing_is_off(find_tiles):
    assert find_tiles() == []


def test_revenue_requires_the_permission_for_billing(find_tiles, billing_enabled, cast, monkeypatch):
    session.get(Account, cast.admin.id).operator_role = "read_only"
    session.commit()
    assert len(find_tiles()) == 1
    allowed = permissions.OPERATOR_ROLES["read_only"] - {"admin:billing:read"}
    monkeypatch.setitem(permissions.OPERATOR_ROLES, "read_only", allowed)
    assert find_tiles() == []
