"""Billed routes are closed while billing is disabled, except for unbilled accounts.

The tests use an application with an additional billed resource.
"""

import pytest

from api import kit
from panel.app import create_app
from panel.core.db import db, session
from tests.support.operations import find_operations

user = kit.User("gated", __name__, description="Billed resources")


class VolumeIn(kit.Schema):
    """A body without fields."""


@user.get("/storage/gated", op="list", can="volumes.view", billed=True)
def list_volumes():
    """List volumes."""
    return {"success": True}


@user.post("/storage/gated", op="create", can="volumes.manage", body=VolumeIn, billed=True)
def create_volume(body):
    """Create a volume."""
    return {"success": True}


@pytest.fixture(scope="module")
def billed_app(config, app):
    """Return the application with an additional billed resource."""
    billed_app = create_app(config)
    billed_app.extensions["openapi"]["USER"].register_blueprint(user)
    return billed_app


@pytest.fixture
def call_billed_route(rolled_back_app, cast, billed_app):
    def call(caller="owner", method="GET"):
        connection = db.engine  # of the test's transaction
        with billed_app.app_context():
            db.engines[None] = connection
        return billed_app.test_client().open(
            "/api/storage/gated", method=method, headers=cast.headers(caller), json={"a": 1}
        )

    return call


def test_document_marks_billed_operations(billed_app):
    with billed_app.app_context():
        paths = [
            path
            for _, path, operation in find_operations(billed_app, "USER")
            if operation.get("x-billed") and "gated" in path
        ]
    assert paths == ["/api/storage/gated", "/api/storage/gated"]


def test_billed_route_is_closed_while_billing_is_disabled(call_billed_route):
    """BIL-10: also with an invalid body."""
    for method in ("GET", "POST"):
        answer = call_billed_route(method=method)
        assert (answer.status_code, answer.json["reason"]) == (403, "billing_disabled")
        assert answer.json["success"] is False


def test_billed_route_is_open_to_unbilled_accounts(call_billed_route, cast):
    """BIL-11: also for members of their teams."""
    cast.owner.self_provisioning = True
    session.commit()
    assert call_billed_route("owner").status_code == call_billed_route("member").status_code == 200
    assert call_billed_route("outsider").status_code == 403


def test_billed_route_is_open_while_billing_is_enabled(call_billed_route, billing_enabled):
    assert call_billed_route().status_code == 200
    assert call_billed_route(method="POST").status_code == 422


def test_missing_permission_is_reported_before_disabled_billing(call_billed_route):
    assert "billing" not in call_billed_route("nobody").text
    assert call_billed_route("viewer", "POST").json.get("reason") is None


def test_other_routes_are_open_while_billing_is_disabled(api_as, cast):
    """BIL-12"""
    for path in ("/api/instances", "/api/usage-report", "/api/connect"):
        assert api_as("owner", "GET", path).status_code == 200
    order = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    assert api_as("owner", "POST", "/api/cloud-service/instances", json=order).status_code == 200
