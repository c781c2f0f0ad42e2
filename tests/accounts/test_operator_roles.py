"""Roles of operators beside the built-in ones."""

import pytest

from panel.auth import permissions
from panel.auth.operator_roles import list_roles
from panel.core.db import session
from panel.core.errors import Conflict
from panel.models import Account, OperatorRole
from panel.services import operator_roles, operators
from tests.support.cast import UNKNOWN_ID

BODY = {"name": "network", "description": "Addresses", "permissions": ["admin:subnets:write"]}
PATH = "/api/v1/role/network"


@pytest.fixture
def role(cast):
    role = operator_roles.create(**BODY)
    session.commit()
    return role


@pytest.fixture
def operator(cast, role):
    """Return the outsider as an operator with the role."""
    account = session.get(Account, cast.outsider.id)
    operators.promote(account, role.name)
    session.commit()
    return account


def test_role_is_created_changed_and_deleted(api_as):
    created = api_as("admin", "POST", "/api/v1/roles", json=BODY).json["data"]
    assert (created["id"], created["built_in"], created["operators"]) == ("network", False, 0)
    assert set(created["permissions"]) == permissions.OPERATOR_READ_PERMISSIONS | {"admin:subnets:write"}
    assert [row["id"] for row in api_as("admin", "GET", "/api/v1/roles").json["data"]] == [
        *permissions.OPERATOR_ROLES,
        "network",
    ]
    changes = {"description": "", "permissions": ["admin:tasks:write", "admin:tasks:write"]}
    changed = api_as("admin", "PATCH", PATH, json=changes).json["data"]
    assert set(changed["permissions"]) == permissions.OPERATOR_READ_PERMISSIONS | {"admin:tasks:write"}
    assert api_as("admin", "GET", PATH).json["data"] == changed
    assert api_as("admin", "DELETE", PATH).status_code == 200
    assert api_as("admin", "GET", PATH).status_code == api_as("admin", "DELETE", PATH).status_code == 404


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "full"),
        ("name", "Network"),
        ("name", "a" * 17),
        ("name", "a/b"),
        ("name", "new"),  # its page would be the form of a new one
        ("permissions", ["admin:operators:write"]),
        ("permissions", ["admin:tokens:write"]),
        ("permissions", ["admin:instances:read"]),
        ("permissions", ["instances.view"]),
    ],
)
def test_invalid_role_is_a_field_error(api_as, field, value):
    answer = api_as("admin", "POST", "/api/v1/roles", json=BODY | {field: value})
    assert (answer.status_code, [name.partition(".")[0] for name in answer.json["errors"]]) == (422, [field])
    assert "{" not in str([*answer.json["errors"].values()])


def test_error_names_the_maximum_length(api_as, browser_as, cast):
    sentence = "Use 2 to 16 lowercase letters, digits, - and _, starting with a letter."
    answer = api_as("admin", "POST", "/api/v1/roles", json=BODY | {"name": "a" * 17})
    assert answer.json["errors"] == {"name": [sentence]}
    session.get(Account, cast.admin.id).language = "de"
    session.commit()
    page = browser_as("admin").post("/admin/roles/new", data={"name": "a" * 17}).text
    assert "2 bis 16 Kleinbuchstaben" in page


def test_name_is_taken_once(api_as, role):
    answer = api_as("admin", "POST", "/api/v1/roles", json=BODY)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["name"])


@pytest.mark.parametrize("name", permissions.OPERATOR_ROLES)
def test_built_in_roles_cannot_be_changed(api_as, name):
    for method, body in (("PATCH", {"description": "x"}), ("DELETE", None)):
        answer = api_as("admin", method, f"/api/v1/role/{name}", json=body)
        assert (answer.status_code, answer.json["reason"]) == (409, "built_in_role")


def test_role_in_use_cannot_be_deleted(api_as, operator):
    answer = api_as("admin", "DELETE", PATH)
    assert (answer.status_code, answer.json["reason"]) == (409, "role_in_use")
    assert api_as("admin", "GET", PATH).json["data"]["operators"] == 1
    api_as("admin", "POST", f"/api/v1/user/{operator.id}/promote", json={"role": None})
    assert api_as("admin", "DELETE", PATH).status_code == 200


def test_operator_gets_only_an_existing_role(api_as, cast, role):
    path = f"/api/v1/user/{cast.outsider.id}/promote"
    answer = api_as("admin", "POST", path, json={"role": "unknown"})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["role"])
    assert api_as("admin", "POST", path, json={"role": "network"}).json["data"]["operator_role"] == "network"


def test_last_operator_with_full_access_keeps_it(cast, role):
    with pytest.raises(Conflict):
        operators.promote(session.get(Account, cast.admin.id), role.name)


def test_operator_may_view_everything_and_change_what_the_role_permits(browser_as, operator):
    browser = browser_as("outsider")
    assert browser.get("/admin/mass-mails").status_code == 200
    assert browser.post("/admin/subnets/new", data={}).status_code == 422
    refused = browser.post("/admin/mass-mails/new", data={})
    assert refused.status_code == 403
    assert "Your operator role (network)" in refused.text


def test_operator_with_a_made_role_cannot_obtain_more(browser_as, cast, operator, role):
    """Roles, operators and tokens are beyond it, whatever it permits."""
    operator_roles.update(role, permissions=list(operator_roles.GRANTABLE_OPERATOR_PERMISSIONS))
    session.commit()
    browser = browser_as("outsider")
    for path in (
        "/admin/roles/new",
        "/admin/roles/network",
        "/admin/roles/network/delete",
        f"/admin/customers/{operator.id}/role",
        f"/admin/tokens/{UNKNOWN_ID}/revoke",
    ):
        assert browser.post(path, data={"role": "full"}).status_code == 403, path
    assert browser.get("/admin/roles").status_code == 200


def test_change_of_a_role_applies_to_the_next_request(browser_as, operator, role):
    browser = browser_as("outsider")
    assert browser.post("/admin/subnets/new", data={}).status_code == 422
    operator_roles.update(role, permissions=[])
    session.commit()
    assert browser.post("/admin/subnets/new", data={}).status_code == 403


def test_role_that_does_not_exist_permits_nothing(cast, operator, role):
    session.delete(role)
    session.commit()
    assert permissions.get_operator_permissions("network") == frozenset()
    assert not permissions.has_operator_permission("network", permissions.ANY_ADMIN)


def test_stored_permission_that_cannot_be_granted_is_ignored(cast, role):
    role.permissions = ["admin:operators:write", "admin:gone:write"]
    session.commit()
    assert permissions.get_operator_permissions("network") == permissions.OPERATOR_READ_PERMISSIONS


def test_permissions_are_queried_once_for_a_transaction(cast, role, queries):
    session.commit()
    queries.clear()
    for _ in range(3):
        assert permissions.has_operator_permission("network", "admin:subnets:write")
    assert len(queries) == 1


def test_pages_add_change_and_delete_a_role(browser_as, cast):
    browser = browser_as("admin")
    assert browser.post("/admin/roles/new", data=BODY | {"name": "Bad name"}).status_code == 422
    assert browser.post("/admin/roles/new", data=BODY).status_code == 303
    page = browser.get("/admin/roles").text
    assert "Subnets and addresses" in page
    assert browser.get("/admin/roles/network").status_code == 200
    assert browser.post("/admin/roles/network", data={"description": "x", "permissions": ""}).status_code == 303
    assert list_roles()[-1]["permissions"] == sorted(permissions.OPERATOR_READ_PERMISSIONS)
    assert "network" in browser.get(f"/admin/customers/{cast.outsider.id}/access").text
    assert browser.post(f"/admin/customers/{cast.outsider.id}/role", data={"role": "network"}).status_code == 303
    assert "Operator: network" in browser.get("/admin/customers").text
    assert browser.post("/admin/roles/network/delete").status_code == 409
    browser.post(f"/admin/customers/{cast.outsider.id}/role", data={"role": ""})
    assert browser.post("/admin/roles/network/delete").status_code == 303
    assert session.query(OperatorRole).count() == 0
