"""Limits of an account."""

import pytest

from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Account, SshKey
from panel.schemas.constants import ACCOUNT_LIMITS
from panel.services import account_limits


@pytest.fixture
def set_limits(api_as, cast):
    return lambda **body: api_as("admin", "PUT", f"/api/v1/user/{cast.owner.id}", json=body)


def test_account_limits_are_set_and_returned(api_as, cast, set_limits):
    """OTH-01, LIM-13"""
    limits = {name: number for number, name in enumerate(ACCOUNT_LIMITS, 1)}
    assert {name: set_limits(**limits).json["data"][name] for name in ACCOUNT_LIMITS} == limits
    shown = api_as("admin", "GET", f"/api/v1/user/{cast.owner.id}").json["data"]
    assert {name: shown[name] for name in ACCOUNT_LIMITS} == limits
    assert {row["id"]: row["max_dns_zones"] for row in api_as("admin", "GET", "/api/v1/users").json["data"]}[
        cast.owner.id
    ] == limits["max_dns_zones"]


def test_null_keeps_account_limit(set_limits):
    """LIM-10"""
    assert set_limits(max_dns_zones=3).json["data"]["max_dns_zones"] == 3
    assert set_limits(max_dns_zones=None, max_certificates=2).json["data"]["max_dns_zones"] == 3
    assert set_limits().json["data"]["max_dns_zones"] == 3


@pytest.mark.parametrize("value", [-1, 1.5, "x", "3", True, [], 2**31])
@pytest.mark.parametrize("name", ACCOUNT_LIMITS)
def test_invalid_account_limit_is_refused(api_as, cast, set_limits, name, value):
    """LIM-14"""
    before = getattr(cast.owner, name)
    answer = set_limits(**{name: value, "first_name": "Changed"})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [name])
    assert (getattr(cast.owner, name), cast.owner.first_name) == (before, "Olga")


def test_account_limit_is_enforced_and_zero_is_unlimited(cast, set_limits):
    """LIM-11, LIM-12, LIM-15: usage above a lowered limit is kept, and new resources are refused."""
    set_limits(max_dns_zones=0)
    account_limits.ensure_below_limit(cast.owner.id, "max_dns_zones", 10**6)
    set_limits(max_dns_zones=3)
    account_limits.ensure_below_limit(cast.owner.id, "max_dns_zones", 2)
    for used in (3, 5):
        with pytest.raises(Invalid, match="The limit is 3 DNS zones") as refused:
            account_limits.ensure_below_limit(cast.owner.id, "max_dns_zones", used)
        assert refused.value.reason == "limit_reached"


def test_customer_reads_account_limits(api_as, cast, set_limits, monkeypatch):
    monkeypatch.setitem(account_limits.COUNTED_COLUMNS, "max_dns_zones", SshKey.id)  # any table with an owner
    session.add(SshKey(account_id=cast.owner.id, name="k", public_key="", fingerprint=""))
    set_limits(max_dns_zones=3, max_serverless_apps=0)
    shown = api_as("owner", "GET", "/api/account/limits").json["data"]
    assert set(shown) == set(ACCOUNT_LIMITS)
    assert shown["max_dns_zones"] == {"value": 3, "unlimited": False, "used": 1}
    assert shown["max_kubernetes_clusters"]["used"] is None
    assert shown["max_serverless_apps"] == {"value": 0, "unlimited": True, "used": 0}
    assert api_as("member", "GET", "/api/account/limits").json["data"] == shown


def test_account_limits_match_account_columns():
    assert set(ACCOUNT_LIMITS) == {
        column.name for column in Account.__table__.columns if column.name.startswith("max_")
    }
