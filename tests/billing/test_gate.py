"""What costs something is shut while billing is off, but for unbilled accounts. Here the
test makes an application with such routes; volumes are the product's own."""

import pytest

from api import kit
from panel.app import create_app
from panel.core.db import db, session
from tests.test_architecture import find_operations

user = kit.User("gated", __name__, description="What costs something")


class VolumeIn(kit.Schema):
    """Nothing."""


@user.get("/storage/gated", op="list", can="volumes.view", billed=True)
def volumes():
    """List volumes."""
    return {"success": True}


@user.post("/storage/gated", op="create", can="volumes.manage", body=VolumeIn, billed=True)
def create(body):
    """Create a volume."""
    return {"success": True}


@pytest.fixture(scope="module")
def gated_app(config, app):
    """The product with one resource more."""
    made = create_app(config)
    made.extensions["openapi"]["USER"].register_blueprint(user)
    return made


@pytest.fixture
def ask_gated(rolled_back_app, cast, gated_app):
    def call(who="owner", method="GET"):
        connection = db.engine  # what the test has written
        with gated_app.app_context():
            db.engines[None] = connection
        return gated_app.test_client().open(
            "/api/storage/gated", method=method, headers=cast.headers(who), json={"a": 1}
        )

    return call


def test_the_document_says_which_operations_are_gated(gated_app):
    with gated_app.app_context():
        gated = [
            path
            for _, path, operation in find_operations(gated_app, "USER")
            if operation.get("x-billed") and "gated" in path
        ]
    assert gated == ["/api/storage/gated", "/api/storage/gated"]


def test_while_billing_is_off_it_is_shut(ask_gated):
    """BIL-10, before the body is looked at."""
    for method in ("GET", "POST"):
        answer = ask_gated(method=method)
        assert (answer.status_code, answer.json["reason"]) == (403, "billing_disabled")
        assert answer.json["success"] is False


def test_unbilled_accounts_pass(ask_gated, cast):
    """BIL-11, and the members of their teams."""
    cast.owner.self_provisioning = True
    session.commit()
    assert ask_gated("owner").status_code == ask_gated("member").status_code == 200
    assert ask_gated("outsider").status_code == 403


def test_while_billing_is_on_it_is_open(ask_gated, billing_enabled):
    assert ask_gated().status_code == 200
    assert ask_gated(method="POST").status_code == 422


def test_who_may_not_is_told_that_first(ask_gated):
    assert "billing" not in ask_gated("nobody").text
    assert ask_gated("viewer", "POST").json.get("reason") is None


def test_unbilled_routes_work_with_billing_off(api_as, cast):
    """BIL-12"""
    for path in ("/api/instances", "/api/usage-report", "/api/connect"):
        assert api_as("owner", "GET", path).status_code == 200
    wanted = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    assert api_as("owner", "POST", "/api/cloud-service/instances", json=wanted).status_code == 200
