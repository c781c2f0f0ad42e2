"""Accounts: the token's own account, and all accounts for operators."""

from hashlib import sha256
from secrets import token_urlsafe

from flask import current_app

from api import kit
from panel.auth import login, permissions
from panel.core.errors import Conflict
from panel.schemas.accounts import (
    AccountIn,
    AccountOut,
    AccountPatch,
    AccountQuery,
    LimitsOut,
    NewPassword,
    Promotion,
    Suspension,
)
from panel.schemas.profile import ProfileOut, ProfilePatch
from panel.services import account_limits, accounts, factors, operators, passwords, team

user = kit.User("account", __name__, description="The account")
admin = kit.Admin("user", __name__, description="Users")
READ_PERMISSION, WRITE_PERMISSION = "admin:accounts:read", "admin:accounts:write"


@user.get("/profile", op="get", can=permissions.ANY_USER, out=kit.build_wrapped_schema("data", ProfileOut))
def profile():
    """Get the profile of the token's user.

    For a team member this is the member's own profile; `owner_id` is the account whose resources the token can access.
    """
    return {"message": None, "data": describe_profile()}


@user.patch(
    "/profile",
    op="update",
    can=permissions.ANY_USER,
    body=ProfilePatch,
    out=kit.build_wrapped_schema("data", ProfileOut),
)
def change_profile(body):
    """Update name, company, time zone and language.

    Only the fields you send are changed. Allowed while the account is suspended.
    """
    accounts.update(accounts.get(kit.get_current_access().person_id), **body)
    return {"message": "Profile updated.", "data": describe_profile()}


def describe_profile():
    access = kit.get_current_access()
    person = accounts.get(access.person_id)
    values = {name: getattr(person, name, None) for name in ProfileOut().fields}
    return values | {
        "default_currency": current_app.extensions["config"].currency,
        "gravatar": sha256(person.email.encode()).hexdigest(),
        "owner_id": access.id if access.member_id else None,
        "status": 2 if access.suspended else 1,
        "permissions": None if access.permissions is None else sorted(access.permissions),
        "self_provisioning": access.unbilled,
    }


@user.get("/account/limits", op="limits", can="account.view", out=kit.build_wrapped_schema("data", LimitsOut))
def limits():
    """Get the limits of the account and its current usage."""
    return {"message": None, "data": account_limits.describe_limits(kit.get_current_access().id)}


@admin.get("/users", op="list", can=READ_PERMISSION, query=AccountQuery, out=kit.build_admin_page_schema(AccountOut))
def listing(query):
    """List users, newest first.

    Filter with `search`, `kind` and `suspended`. The list includes operators and team members.
    """
    return kit.paginate(accounts.with_details(accounts.listing(**query)))


@admin.post("/users", op="create", can=WRITE_PERMISSION, body=AccountIn, out=AccountOut)
def create(body):
    """Create a user.

    No email is sent. Without a password, the user sets one through "Forgot your password?". Returns 422 under `email`
    if the address is already used, and under `password` if the password is too short, too common or based on the email
    address. To create an operator, promote the user afterwards.
    """
    kit.set_message("User created.")
    return accounts.create(**body)


@admin.get("/user/<account_id>", op="get", can=READ_PERMISSION, out=AccountOut)
def show(account_id):
    """Get a user.

    Passwords and secrets are never returned. Returns 404 if the user does not exist.
    """
    return accounts.get(account_id)


@admin.put("/user/<account_id>", op="update", can=WRITE_PERMISSION, body=AccountPatch, out=AccountOut)
def update(body, account_id):
    """Update a user's email address, names and limits.

    Only the fields you send are changed. A limit of null keeps its current value, 0 means unlimited. An account that is
    above a lowered limit keeps its resources but cannot create more.
    """
    account = accounts.update(accounts.get(account_id), **body)
    kit.set_message("User updated.")
    return account


@admin.delete("/user/<account_id>", op="delete", can=WRITE_PERMISSION)
def delete(account_id):
    """Delete a user who owns no resources.

    Returns 409 `owns_resources` with what the user still owns, and 409 `last_operator` for the last operator with full
    access. The account's tokens, sessions and keys are deleted; its billing records are kept.
    """
    accounts.remove(accounts.get(account_id))
    kit.set_message("User deleted.")


@admin.delete("/user/<account_id>/association/<membership_id>", op="delete_association", can=WRITE_PERMISSION)
def delete_association(account_id, membership_id):
    """Remove a member from a team.

    `account_id` is the member or the owner of the team; for an invitation that has not been accepted it is the owner.
    `membership_id` is in the user object, that of an open invitation in its `invitations`. The member's sessions and
    tokens end immediately. Resources that the member created stay with the owner. An account that was created by the
    invitation is deleted as well, unless it owns resources or belongs to a billing system.
    """
    team.remove(team.get_membership(accounts.get(account_id), membership_id))
    kit.set_message("Membership removed.")


@admin.post("/user/<account_id>/suspend", op="suspend", can=WRITE_PERMISSION, body=Suspension, out=AccountOut)
def suspend(body, account_id):
    """Suspend a user and, if the user is an owner, the whole team.

    A suspended user can sign in, read the reason and all data, and manage their own profile and security: password,
    second factor, passkeys, sessions, deleting tokens. Every other change returns 403 `account_suspended`. Instances
    keep running: suspend them separately. If the user is already suspended, only the reason changes.
    """
    account = accounts.suspend(accounts.get(account_id), body["reason"])
    kit.set_message("User suspended.")
    return account


@admin.post("/user/<account_id>/unsuspend", op="unsuspend", can=WRITE_PERMISSION, out=AccountOut)
def unsuspend(account_id):
    """End a user's suspension.

    The team can make changes again immediately. Suspended instances stay suspended. Does nothing if the user is not
    suspended.
    """
    account = accounts.unsuspend(accounts.get(account_id))
    kit.set_message("User suspension ended.")
    return account


@admin.post("/user/<account_id>/resetPassword", op="reset_password", can=WRITE_PERMISSION, out=NewPassword)
def reset_password(account_id):
    """Reset a user's password.

    The new password is generated and only returned in this response. All sessions of the user end; API tokens stay
    valid.
    """
    password = token_urlsafe(15)
    passwords.change(accounts.get(account_id), password, login.get_request_source())
    kit.set_message("Password changed. All sessions are signed out.")
    return {"password": password}


@admin.post("/user/<account_id>/two-factor/disable", op="two_factor_disable", can=WRITE_PERMISSION, out=AccountOut)
def disable_two_factor(account_id):
    """Remove all second factors of a user who lost them.

    Removes authenticator, passkeys and recovery codes; afterwards the password alone is enough to sign in. Returns 409
    if the user has no second factor.
    """
    account = accounts.get(account_id)
    if not factors.has_second_factor(account):
        raise Conflict("The user has no second factor.", reason="two_factor_disabled")
    factors.reset(account, login.get_request_source())
    kit.set_message("Second factors removed.")
    return account


@admin.post("/user/<account_id>/promote", op="promote", can="admin:operators:write", body=Promotion, out=AccountOut)
def promote(body, account_id):
    """Make a user an operator, or change or remove the operator role.

    `full` has full access, `support` can see everything and manage accounts, instances and tasks, `read_only` can see
    everything, null removes the role; `GET /api/v1/roles` lists all. Returns 409 `last_operator` for the last operator
    with full access.
    """
    account = operators.promote(accounts.get(account_id), body["role"])
    kit.set_message("Role updated.")
    return account
