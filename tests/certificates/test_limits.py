"""The limit of certificates of an account."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import func, select

from panel.app import create_app
from panel.core.db import session
from panel.models import Account, Certificate
from tests.support.certificates import issue_certificate
from tests.support.isolated_app import isolated_installation


@pytest.fixture
def set_account_limit(api_as, cast):
    def set_limit(maximum):
        answer = api_as("admin", "PUT", f"/api/v1/user/{cast.owner.id}", json={"max_certificates": maximum})
        assert answer.status_code == 200

    return set_limit


@pytest.fixture
def get_account_limit(api_as):
    return lambda caller="owner": api_as(caller, "GET", "/api/account/limits").json["data"]["max_certificates"]


def test_certificate_limit_is_enforced_and_zero_is_unlimited(
    upload_certificate, set_account_limit, get_account_limit, chain
):
    """LIM-11, LIM-12, LIM-20"""
    set_account_limit(1)
    assert get_account_limit() == {"value": 1, "unlimited": False, "used": 0}
    assert "id" in upload_certificate(chain.leaf)
    assert get_account_limit() == {"value": 1, "unlimited": False, "used": 1}
    refused = upload_certificate(chain.leaf)
    assert (refused["success"], refused["reason"]) == (False, "limit_reached")
    set_account_limit(0)
    for _ in range(3):
        assert "id" in upload_certificate(chain.leaf)
    assert get_account_limit() == {"value": 0, "unlimited": True, "used": 4}


def test_lowered_limit_keeps_certificates_and_refuses_new_ones(
    api_as, upload_certificate, set_account_limit, get_account_limit, chain
):
    """LIM-15"""
    rows = [upload_certificate(chain.leaf) for _ in range(3)]
    set_account_limit(1)
    assert api_as("owner", "GET", "/api/certificates").json["total"] == 3
    assert upload_certificate(chain.leaf)["reason"] == "limit_reached"
    item = f"/api/certificate/{rows[0]['id']}"
    assert (
        api_as("owner", "PATCH", item, json=issue_certificate().body()).status_code == 200
    )  # a replacement does not add a certificate
    for row in rows[:2]:
        assert api_as("owner", "DELETE", f"/api/certificate/{row['id']}").status_code == 200
        assert upload_certificate(chain.leaf)["reason"] == "limit_reached"
    assert api_as("owner", "DELETE", f"/api/certificate/{rows[2]['id']}").status_code == 200
    assert "id" in upload_certificate(chain.leaf)


def test_team_members_share_owner_limit(upload_certificate, set_account_limit, get_account_limit, chain):
    set_account_limit(1)
    assert "id" in upload_certificate(chain.leaf, caller="member")
    assert get_account_limit("member") == get_account_limit() == {"value": 1, "unlimited": False, "used": 1}
    assert (
        upload_certificate(chain.leaf)["reason"]
        == upload_certificate(chain.leaf, caller="member")["reason"]
        == "limit_reached"
    )
    assert "id" in upload_certificate(chain.leaf, caller="outsider")


def test_validation_error_precedes_limit_error(upload_certificate, set_account_limit, chain):
    set_account_limit(1)
    upload_certificate(chain.leaf)
    assert upload_certificate(chain.leaf, private_key="x")["errors"].keys() == {"private_key"}


def test_parallel_uploads_do_not_exceed_limit(tmp_path, chain):
    """LIM-12"""
    count, maximum = 8, 3
    with isolated_installation(tmp_path, create=create_app) as app, app.app_context():
        session.get(Account, app.cast.owner.id).max_certificates = maximum
        session.commit()
        start = Barrier(count)

        def upload_certificate(_):
            start.wait()
            headers = app.cast.headers("owner")
            return app.test_client().post("/api/certificates", json=chain.leaf.body(), headers=headers)

        with ThreadPoolExecutor(count) as customers:
            answers = list(customers.map(upload_certificate, range(count)))
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses == [200] * maximum + [422] * (count - maximum)
        assert session.scalar(select(func.count()).select_from(Certificate)) == maximum
