"""Accounts: the token's own, and all accounts for operators."""

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
    """Show who the token acts for.

    Of a team member it shows the member; `owner_id` names whose resources the token opens.
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
    """Change name, company and time zone.

    Only what is sent changes. Also while the account is suspended.
    """
    accounts.update(accounts.get(kit.get_current_access().person_id), **body)
    return {"message": "The profile is changed.", "data": describe_profile()}


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
    """Show what the account may have at most, and how much of it there is."""
    return {"message": None, "data": account_limits.describe_limits(kit.get_current_access().id)}


@admin.get("/users", op="list", can=READ_PERMISSION, query=AccountQuery, out=kit.build_admin_page_schema(AccountOut))
def listing(query):
    """List the users, newest first.

    `search`, `kind` and `suspended` narrow the list. Operators and members of teams are in it.
    """
    return kit.paginate(accounts.with_details(accounts.listing(**query)))


@admin.post("/users", op="create", can=WRITE_PERMISSION, body=AccountIn, out=AccountOut)
def create(body):
    """Add a user.

    No mail is sent. Without a password the person sets one by "Forgot your password?". 422 under `email` when the
    address is taken, under `password` for one that is short, common or made of the email address. An operator is made
    by a promotion afterwards.
    """
    kit.set_message("The user is added.")
    return accounts.create(**body)


@admin.get("/user/<account_id>", op="get", can=READ_PERMISSION, out=AccountOut)
def show(account_id):
    """Show a user.

    404 when there is no such user. Passwords and secrets are never shown.
    """
    return accounts.get(account_id)


@admin.put("/user/<account_id>", op="update", can=WRITE_PERMISSION, body=AccountPatch, out=AccountOut)
def update(body, account_id):
    """Change a user's address, names and limits.

    What is not sent stays, and a limit that is null stays as well; 0 is unlimited (specification 2.9). An account that
    has more than a lowered limit keeps what it has and gets no more.
    """
    account = accounts.update(accounts.get(account_id), **body)
    kit.set_message("The user is changed.")
    return account


@admin.delete("/user/<account_id>", op="delete", can=WRITE_PERMISSION)
def delete(account_id):
    """Remove a user who owns nothing.

    409 `owns_resources` names what is left, 409 `last_operator` protects the last operator who may do everything.
    Tokens, sessions and keys go with the account; what was booked for it stays.
    """
    accounts.remove(accounts.get(account_id))
    kit.set_message("The user is removed.")


@admin.delete("/user/<account_id>/association/<membership_id>", op="delete_association", can=WRITE_PERMISSION)
def delete_association(account_id, membership_id):
    """End a membership in a team.

    The user is the member or the team's owner; of an invitation that was not accepted, the owner. `membership_id` is in
    the user object, those of open invitations in its `invitations`. Sessions and tokens of the member end at once. What
    the member made stays the owner's. An account that the invitation made is removed too, unless it owns something or a
    billing system knows it.
    """
    team.remove(team.get_membership(accounts.get(account_id), membership_id))
    kit.set_message("The membership is ended.")


@admin.post("/user/<account_id>/suspend", op="suspend", can=WRITE_PERMISSION, body=Suspension, out=AccountOut)
def suspend(body, account_id):
    """Suspend a user, and with an owner the team.

    The person can sign in, read the reason and what there is, change their own profile and look after their own
    security: password, second factor, passkeys, sessions, removing tokens. Every other change answers 403
    `account_suspended`. Instances go on running: suspend those that must not. Repeated, it only changes the reason.
    """
    account = accounts.suspend(accounts.get(account_id), body["reason"])
    kit.set_message("The user is suspended.")
    return account


@admin.post("/user/<account_id>/unsuspend", op="unsuspend", can=WRITE_PERMISSION, out=AccountOut)
def unsuspend(account_id):
    """End a user's suspension.

    The team may act again at once. Instances that were suspended stay so. Does nothing to a user who is not suspended.
    """
    account = accounts.unsuspend(accounts.get(account_id))
    kit.set_message("The user is no longer suspended.")
    return account


@admin.post("/user/<account_id>/resetPassword", op="reset_password", can=WRITE_PERMISSION, out=NewPassword)
def reset_password(account_id):
    """Give a user a new password.

    It is in this answer and nowhere else. Every session of the person ends; tokens stay.
    """
    password = token_urlsafe(15)
    passwords.change(accounts.get(account_id), password, login.get_request_source())
    kit.set_message("The password is changed, and every session is ended.")
    return {"password": password}


@admin.post("/user/<account_id>/two-factor/disable", op="two_factor_disable", can=WRITE_PERMISSION, out=AccountOut)
def disable_two_factor(account_id):
    """Remove a user's second factors, for somebody who lost them.

    Authenticator, passkeys and recovery codes: the password alone opens the account again. 409 when there are none.
    """
    account = accounts.get(account_id)
    if not factors.has_second_factor(account):
        raise Conflict("The user has no second factor.", reason="two_factor_disabled")
    factors.reset(account, login.get_request_source())
    kit.set_message("The second factors are removed.")
    return account


@admin.post("/user/<account_id>/promote", op="promote", can="admin:operators:write", body=Promotion, out=AccountOut)
def promote(body, account_id):
    """Make a user an operator, change an operator's role, or end it with null.

    `full` may do everything, `support` sees everything and looks after accounts, instances and tasks, `read_only` sees
    everything. 409 `last_operator` protects the last one who may do everything.
    """
    account = operators.promote(accounts.get(account_id), body["role"])
    kit.set_message("The role is changed.")
    return account
