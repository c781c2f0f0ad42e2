"""Users in the operators' API: suspension, passwords, second factors, roles, deletion."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Account, Image, LoginSession, Project, Token
from panel.services import accounts, tokens
from tests.support.cast import PASSWORD
from tests.support.pseudo_language import bracket, pseudo_language  # noqa: F401

USER_PATH = "/api/v1/user"


@pytest.fixture
def run_action(api_as, cast):
    """Return a function that runs an action on one of the cast: `run_action("owner", "suspend", reason="…")`."""

    def run(caller, action="", method="POST", **body):
        path = f"{USER_PATH}/{getattr(cast, caller).id}" + (f"/{action}" if action else "")
        return api_as("admin", method, path, json=body)

    return run


def test_user_name_and_email_are_updated(api_as, cast, run_action):
    answer = run_action(
        "owner", method="PUT", first_name="Ada", email=" ADA@Example.com ".strip(), self_provisioning=True
    )
    data = answer.json["data"]
    assert (data["first_name"], data["email"], data["self_provisioning"]) == ("Ada", "ada@example.com", True)
    assert cast.owner.self_provisioning is True
    taken = run_action("owner", method="PUT", email="outsider@example.com")
    assert (taken.status_code, list(taken.json["errors"])) == (422, ["email"])
    assert run_action("owner", method="PUT", email="ada@example.com").status_code == 200
    unknown = run_action("owner", method="PUT", balance=5)
    assert (unknown.status_code, "Writable" in unknown.json["errors"]["balance"][0]) == (422, True)


def test_member_email_change_appears_in_team(api_as, cast):
    assert (
        api_as("admin", "PUT", f"/api/v1/user/{cast.viewer.id}", json={"email": "new@example.com"}).status_code == 200
    )
    members = [member["email"] for member in api_as("owner", "GET", "/api/team/subusers").json["data"]]
    assert "new@example.com" in members
    assert "viewer@example.com" not in members
    role = api_as("owner", "GET", "/api/team/roles").json["data"][0]["id"]
    again = {"email": "new@example.com", "role_id": role}
    assert api_as("owner", "POST", "/api/team/subusers/invite", json=again).json["errors"].keys() == {"email"}


def test_suspended_user_can_sign_in_and_sees_reason(api_as, cast, browser_as, run_action):
    instance = cast.instance()
    answer = run_action("owner", "suspend", reason="Invoice 1042 is overdue.")
    assert answer.json["data"]["suspended_reason"] == "Invoice 1042 is overdue."
    since = answer.json["data"]["suspended_at"]
    assert since
    sent = {"email": "owner@example.com", "password": PASSWORD}
    browser = browser_as()
    assert browser.post("/sign-in", data=sent).status_code == 303
    assert "Invoice 1042 is overdue." in browser.get("/").text
    assert "Invoice 1042 is overdue." in browser_as("viewer").get("/").text
    refused = api_as("owner", "PATCH", f"/api/instance/{instance.id}", json={"display_name": "x"})
    assert (refused.status_code, refused.json["reason"]) == (403, "account_suspended")
    assert api_as("owner", "GET", "/api/profile").json["data"]["status"] == 2
    assert cast.instance().state == "pending"
    assert run_action("owner", "suspend", reason="Again").json["data"]["suspended_at"] == since
    assert run_action("owner", "unsuspend").json["data"]["suspended_at"] is None
    assert api_as("owner", "PATCH", f"/api/instance/{instance.id}", json={"display_name": "x"}).status_code == 200
    assert api_as("owner", "GET", "/api/profile").json["data"]["status"] == 1


def test_suspended_user_can_change_only_profile_and_security(api_as, cast, run_action):
    """Leaked credentials can still be revoked; everything else is refused."""
    row = api_as("owner", "POST", "/api/api-tokens", json={"name": "leaked", "scopes": ["instances:read"]}).json
    run_action("owner", "suspend")
    assert api_as("owner", "PATCH", "/api/profile", json={"first_name": "Ada"}).status_code == 200
    assert api_as("owner", "DELETE", f"/api/api-token/{row['api_token']['id']}").status_code == 200
    body = {"current_password": PASSWORD, "new_password": "staple battery horse"}
    assert api_as("owner", "POST", "/api/profile/password", json=body).status_code == 200
    for path, sent in (
        ("/api/api-tokens", {"name": "new", "scopes": ["instances:read"]}),
        ("/api/projects", {"name": "new"}),
    ):
        refused = api_as("owner", "POST", path, json=sent)
        assert (refused.status_code, refused.json["reason"]) == (403, "account_suspended"), path


def test_user_list_is_filtered(api_as, cast, run_action):
    run_action("outsider", "suspend")
    emails = lambda query: {row["email"] for row in api_as("admin", "GET", f"{USER_PATH}s?{query}").json["data"]}  # noqa: E731
    assert emails("suspended=true") == {"outsider@example.com"}
    assert emails("kind=operator") == {"admin@example.com"}
    assert emails("kind=member") == {"member@example.com", "viewer@example.com"}
    assert "owner@example.com" in emails("kind=customer&suspended=false")
    assert api_as("admin", "GET", f"{USER_PATH}s?kind=king").status_code == 422
    rows = {row["email"]: row["owner_id"] for row in api_as("admin", "GET", f"{USER_PATH}s").json["data"]}
    assert (rows["viewer@example.com"], rows["owner@example.com"]) == (cast.owner.id, None)


def test_password_reset_ends_sessions(api_as, cast, browser_as, run_action):
    browser = browser_as("owner")
    assert browser.get("/").status_code == 200
    password = run_action("owner", "resetPassword").json["data"]["password"]
    assert browser.get("/").status_code == 303
    assert accounts.authenticate("owner@example.com", password)
    assert accounts.authenticate("owner@example.com", PASSWORD) is None
    assert api_as("owner", "GET", "/api/connect").status_code == 200
    assert password not in api_as("admin", "GET", f"{USER_PATH}/{cast.owner.id}").text


def test_second_factors_are_disabled(cast, run_action):
    refused = run_action("owner", "two-factor/disable")
    assert (refused.status_code, refused.json["reason"]) == (409, "two_factor_disabled")
    cast.owner.totp_secret, cast.owner.two_factor_at = "JBSWY3DPEHPK3PXP", cast.owner.created_at
    session.commit()
    assert run_action("owner", "two-factor/disable").json["data"]["two_factor_enabled"] is False
    assert (cast.owner.totp_secret, cast.owner.two_factor_at) == (None, None)


def test_operator_role_is_granted_changed_and_removed(api_as, cast, browser_as, run_action):
    assert browser_as("outsider").get("/admin").status_code == 403
    for role, sees in (("read_only", 200), ("support", 200), ("full", 200), (None, 403)):
        data = run_action("outsider", "promote", role=role).json["data"]
        assert (data["operator_role"], data["is_admin"]) == (role, role is not None)
        assert browser_as("outsider").get("/admin").status_code == sees, role
    for role in ("king", "", 5):
        assert run_action("outsider", "promote", role=role).status_code == 422
    assert run_action("outsider", "promote").status_code == 422
    refused = run_action("viewer", "promote", role="support")
    assert (refused.status_code, refused.json["reason"]) == (409, "is_member")


def test_last_full_operator_cannot_be_removed(api_as, cast, run_action):
    acts = (
        lambda: run_action("admin", "promote", role="support"),
        lambda: run_action("admin", "promote", role=None),
        lambda: run_action("admin", "suspend"),
        lambda: run_action("admin", method="DELETE"),
    )
    run_action("outsider", "promote", role="support")
    for run in acts:
        answer = run()
        assert (answer.status_code, answer.json["reason"]) == (409, "last_operator")
    run_action("outsider", "promote", role="full")
    run_action("outsider", "suspend")
    assert acts[0]().json["reason"] == "last_operator"
    run_action("outsider", "unsuspend")
    assert acts[0]().status_code == 200


def test_user_with_resources_is_not_deleted(api_as, cast, run_action):
    cast.instance("outsider")
    refused = run_action("outsider", method="DELETE")
    assert (refused.status_code, refused.json["reason"]) == (409, "owns_resources")
    assert "1 instance" in refused.json["message"]
    refused = run_action("owner", method="DELETE")
    assert (refused.status_code, "2 team members" in refused.json["message"]) == (409, True)


def test_counts_of_owned_resources_are_translated(cast, browser_as, pseudo_language):
    cast.instance("owner")
    page = browser_as("admin").get(f"/admin/customers/{cast.owner.id}/access", headers=pseudo_language).text
    assert f"{bracket('1 instance')}, {bracket('2 team members')}" in page


def test_user_with_images_is_not_deleted(cast, run_action):
    image = session.get(Image, cast.image.id)
    image.account_id = cast.outsider.id
    session.commit()
    assert "1 image" in run_action("outsider", method="DELETE").json["message"]


def test_deleted_user_loses_access_immediately(api_as, cast, browser_as, run_action):
    person, browser = cast.outsider.id, browser_as("outsider")
    session.add(Project(account_id=person, name="Shop"))
    session.commit()
    assert run_action("outsider", method="DELETE").json["success"] is True
    assert browser.get("/").status_code == 303
    assert api_as("outsider", "GET", "/api/connect").status_code == 401
    for model in (LoginSession, Token, Project):
        assert session.scalars(select(model).where(model.account_id == person)).all() == []
    assert session.get(Account, person) is None
    assert api_as("admin", "GET", f"{USER_PATH}/{person}").status_code == 404


def test_profile_belongs_to_signed_in_user(api_as, cast):
    own_profile = api_as("owner", "GET", "/api/profile").json["data"]
    assert (own_profile["id"], own_profile["owner_id"], own_profile["email"]) == (
        cast.owner.id,
        None,
        "owner@example.com",
    )
    assert (own_profile["status"], own_profile["is_admin"], own_profile["permissions"]) == (1, False, None)
    viewer_profile = api_as("viewer", "GET", "/api/profile").json["data"]
    assert (viewer_profile["id"], viewer_profile["owner_id"]) == (cast.viewer.id, cast.owner.id)
    assert "instances.view" in viewer_profile["permissions"]
    body = {"first_name": "Vera", "company_name": None, "timezone": "Europe/Berlin"}
    changed = api_as("viewer", "PATCH", "/api/profile", json=body).json["data"]
    assert (changed["first_name"], changed["timezone"]) == ("Vera", "Europe/Berlin")
    assert (cast.viewer.first_name, cast.owner.first_name) == ("Vera", "Olga")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"email": "x@example.com"}, "email"),
        ({"first_name": 5}, "first_name"),
    ],
)
def test_invalid_profile_fields_are_refused(api_as, body, field):
    answer = api_as("owner", "PATCH", "/api/profile", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_profile_requires_account_scope(api_as, cast):
    """IDT-30"""
    cast.tokens["other"] = tokens.issue("user", name="n", account=cast.owner, scopes=["instances:read"])[1]
    session.commit()
    for path in ("/api/profile", "/api/account/limits", "/api/dashboard/search?q=x"):
        assert api_as("other", "GET", path).status_code == 403
