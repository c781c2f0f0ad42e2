"""How many certificates an account may have."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import func, select

from panel.app import create_app
from panel.core.db import session
from panel.models import Account, Certificate
from tests.certificates.conftest import issue_certificate
from tests.support.isolated_app import isolated_installation


@pytest.fixture
def set_account_limit(api_as, cast):
    def cap(maximum):
        answer = api_as("admin", "PUT", f"/api/v1/user/{cast.owner.id}", json={"max_certificates": maximum})
        assert answer.status_code == 200

    return cap


@pytest.fixture
def limit(api_as):
    return lambda who="owner": api_as(who, "GET", "/api/account/limits").json["data"]["max_certificates"]


def test_a_number_is_a_hard_cap_and_zero_is_unlimited(upload, set_account_limit, limit, chain):
    """LIM-11, LIM-12, LIM-20"""
    set_account_limit(1)
    assert limit() == {"value": 1, "unlimited": False, "used": 0}
    assert "id" in upload(chain.leaf)
    assert limit() == {"value": 1, "unlimited": False, "used": 1}
    refused = upload(chain.leaf)
    assert (refused["success"], refused["reason"]) == (False, "limit_reached")
    set_account_limit(0)
    for _ in range(3):
        assert "id" in upload(chain.leaf)
    assert limit() == {"value": 0, "unlimited": True, "used": 4}


def test_who_is_above_a_lowered_limit_keeps_all_and_gets_no_more(api_as, upload, set_account_limit, limit, chain):
    """LIM-15"""
    rows = [upload(chain.leaf) for _ in range(3)]
    set_account_limit(1)
    assert api_as("owner", "GET", "/api/certificates").json["total"] == 3
    assert upload(chain.leaf)["reason"] == "limit_reached"
    item = f"/api/certificate/{rows[0]['id']}"
    assert (
        api_as("owner", "PATCH", item, json=issue_certificate().body()).status_code == 200
    )  # a replacement is none more
    for row in rows[:2]:
        assert api_as("owner", "DELETE", f"/api/certificate/{row['id']}").status_code == 200
        assert upload(chain.leaf)["reason"] == "limit_reached"
    assert api_as("owner", "DELETE", f"/api/certificate/{rows[2]['id']}").status_code == 200
    assert "id" in upload(chain.leaf)


def test_a_team_has_the_owner_s_limit(upload, set_account_limit, limit, chain):
    set_account_limit(1)
    assert "id" in upload(chain.leaf, who="member")
    assert limit("member") == limit() == {"value": 1, "unlimited": False, "used": 1}
    assert upload(chain.leaf)["reason"] == upload(chain.leaf, who="member")["reason"] == "limit_reached"
    assert "id" in upload(chain.leaf, who="outsider")


def test_what_is_wrong_is_told_before_the_limit(upload, set_account_limit, chain):
    set_account_limit(1)
    upload(chain.leaf)
    assert upload(chain.leaf, private_key="x")["errors"].keys() == {"private_key"}


def test_of_many_at_once_as_many_as_may_get_in(tmp_path, chain):
    """LIM-12: also when all ask in the same moment."""
    count, maximum = 8, 3
    with isolated_installation(tmp_path, create=create_app) as app, app.app_context():
        session.get(Account, app.cast.owner.id).max_certificates = maximum
        session.commit()
        start = Barrier(count)

        def upload(_):
            start.wait()
            headers = app.cast.headers("owner")
            return app.test_client().post("/api/certificates", json=chain.leaf.body(), headers=headers)

        with ThreadPoolExecutor(count) as customers:
            answers = list(customers.map(upload, range(count)))
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses == [200] * maximum + [422] * (count - maximum)
        assert session.scalar(select(func.count()).select_from(Certificate)) == maximum
