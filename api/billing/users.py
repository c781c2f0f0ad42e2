"""Users, their credit and usage, and sign-in links."""

from flask import url_for

from api import idempotency, kit
from api.credits import BOOKED_ONCE
from api.usage import REPORT_RESPONSE, build_report
from panel.auth import permissions
from panel.schemas.billing import CustomerIn, CustomerOut, CustomerPatch, CustomerQuery, SsoIn, SsoOut, SuspendIn
from panel.schemas.credits import CreditIn, CreditOut
from panel.schemas.usage import UsageQuery
from panel.services import accounts, billing_users, credits, sso

connect = kit.Billing("connect", __name__, description="Token check")
billing = kit.Billing("user", __name__, description="Users of the billing system")
BILLING_PERMISSION = permissions.BILLING


@connect.get("/auth", op="check", can=BILLING_PERMISSION)
def auth():
    """Check a billing token.

    Billing tokens are only valid for this API; admin tokens are not valid for it.
    """
    kit.set_message("The token is valid.")


@billing.get(
    "/users", op="list", can=BILLING_PERMISSION, query=CustomerQuery, out=kit.build_admin_page_schema(CustomerOut)
)
def listing(query):
    """Find users by external id or email address.

    Without a filter all customers are listed, newest first. Operators are not included.
    """
    return kit.paginate(accounts.with_details(billing_users.listing(**query)))


@billing.post("/users", op="create", can=BILLING_PERMISSION, body=CustomerIn, out=CustomerOut)
def create(body):
    """Create a user.

    A repeated request with the same external id returns the existing user unchanged. Without a password, the user
    receives an email with a link to set one.
    """
    kit.set_message("User provisioned.")
    return billing_users.provision(**body)


@billing.get("/user/<account_id>", op="get", can=BILLING_PERMISSION, out=CustomerOut)
def show(account_id):
    """Get a user.

    Returns 404 for operators and unknown ids.
    """
    return billing_users.get(account_id)


@billing.patch("/user/<account_id>", op="update", can=BILLING_PERMISSION, body=CustomerPatch, out=CustomerOut)
def update(body, account_id):
    """Update a user.

    Only the fields you send are changed. Links that were mailed to a previous address become invalid. Returns 422 under
    `email` or `external_id` if another user has the same value.
    """
    kit.set_message("User updated.")
    return billing_users.update(billing_users.get(account_id), **body)


@billing.delete("/user/<account_id>", op="delete", can=BILLING_PERMISSION)
def delete(account_id):
    """Delete a user who owns no resources.

    Returns 409 `owns_resources` while the user owns resources, such as instances. Ledger and usage records are kept.
    """
    accounts.remove(billing_users.get(account_id))
    kit.set_message("User deleted.")


@billing.post("/user/<account_id>/suspend", op="suspend", can=BILLING_PERMISSION, body=SuspendIn, out=CustomerOut)
def suspend(body, account_id):
    """Suspend a user.

    The user can still sign in, read the reason, and manage their own profile and security, including deleting tokens.
    Every other change returns 403 `account_suspended`. Instances keep running: suspend them separately.
    """
    kit.set_message("User suspended.")
    return accounts.suspend(billing_users.get(account_id), **body)


@billing.post("/user/<account_id>/unsuspend", op="unsuspend", can=BILLING_PERMISSION, out=CustomerOut)
def unsuspend(account_id):
    """End a user's suspension.

    The user can make changes again immediately; suspended instances stay suspended. Does nothing if the user is not
    suspended.
    """
    kit.set_message("User suspension ended.")
    return accounts.unsuspend(billing_users.get(account_id))


@billing.post(
    "/user/<account_id>/credits", op="add_credit", can=BILLING_PERMISSION, body=CreditIn, out=CreditOut, **BOOKED_ONCE
)
def add_credit(body, account_id):
    """Add credit to a user's account.

    With an `Idempotency-Key`, a repeated request is booked once and gets the same response.
    """
    kit.set_message("Ledger entry created.")
    return credits.grant(
        billing_users.get(account_id), actor=kit.get_current_actor(), idempotency_key=idempotency.get_key(), **body
    )


@billing.get("/user/<account_id>/usage", op="usage", can=BILLING_PERMISSION, query=UsageQuery, out=REPORT_RESPONSE)
def usage(query, account_id):
    """Get the usage of a user for a month, by resource.

    `month` is a calendar month in UTC, by default the current one.
    """
    return build_report(billing_users.get(account_id), **query)


@billing.post("/user/<account_id>/sso", op="sso", can=BILLING_PERMISSION, body=SsoIn, out=SsoOut)
def sign_in_link(body, account_id):
    """Create a link that signs the user in.

    It works once and opens the user's start page. If the user has a second factor, it is required as usual.
    """
    kit.set_message("Sign-in link created.")
    return sso.create_link(billing_users.get(account_id), redirect_to=url_for("overview.show"), **body)
