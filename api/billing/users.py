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

connect = kit.Billing("connect", __name__, description="Confirming a billing token")
billing = kit.Billing("user", __name__, description="Users of the billing system")
BILLING_PERMISSION = permissions.BILLING


@connect.get("/auth", op="check", can=BILLING_PERMISSION)
def auth():
    """Confirm a billing token.

    Billing tokens open this surface and nothing else; admin tokens do not open it.
    """
    kit.set_message("The token is valid.")


@billing.get(
    "/users", op="list", can=BILLING_PERMISSION, query=CustomerQuery, out=kit.build_admin_page_schema(CustomerOut)
)
def listing(query):
    """Find users by external id or email address.

    Without either every customer is listed, newest first. Operators are not customers.
    """
    return kit.paginate(accounts.with_details(billing_users.listing(**query)))


@billing.post("/users", op="create", can=BILLING_PERMISSION, body=CustomerIn, out=CustomerOut)
def create(body):
    """Provision a user.

    The same external id again answers the user that it made, unchanged. Without a password the user is mailed a link
    to choose one.
    """
    kit.set_message("The user is there.")
    return billing_users.provision(**body)


@billing.get("/user/<account_id>", op="get", can=BILLING_PERMISSION, out=CustomerOut)
def show(account_id):
    """Show a user.

    404 for operators and unknown ids.
    """
    return billing_users.get(account_id)


@billing.patch("/user/<account_id>", op="update", can=BILLING_PERMISSION, body=CustomerPatch, out=CustomerOut)
def update(body, account_id):
    """Change a user.

    Only what is sent changes. Links that were mailed to an earlier address end. 422 under `email` or `external_id` when
    another user has it.
    """
    kit.set_message("The user is changed.")
    return billing_users.update(billing_users.get(account_id), **body)


@billing.delete("/user/<account_id>", op="delete", can=BILLING_PERMISSION)
def delete(account_id):
    """Remove a user who owns nothing.

    Refused with 409 `owns_resources` while there is something, such as an instance. The ledger and the usage records
    stay.
    """
    accounts.remove(billing_users.get(account_id))
    kit.set_message("The user is removed.")


@billing.post("/user/<account_id>/suspend", op="suspend", can=BILLING_PERMISSION, body=SuspendIn, out=CustomerOut)
def suspend(body, account_id):
    """Suspend a user.

    The user can still sign in, read why, change the own profile and look after the own security, which includes
    removing tokens. Every other change answers 403 `account_suspended`. Instances go on: suspend each of them.
    """
    kit.set_message("The user is suspended.")
    return accounts.suspend(billing_users.get(account_id), **body)


@billing.post("/user/<account_id>/unsuspend", op="unsuspend", can=BILLING_PERMISSION, out=CustomerOut)
def unsuspend(account_id):
    """Unsuspend a user.

    The user may act again at once; instances that were suspended stay so. Does nothing to a user who is not suspended.
    """
    kit.set_message("The user is no longer suspended.")
    return accounts.unsuspend(billing_users.get(account_id))


@billing.post(
    "/user/<account_id>/credits", op="add_credit", can=BILLING_PERMISSION, body=CreditIn, out=CreditOut, **BOOKED_ONCE
)
def add_credit(body, account_id):
    """Add credit to a user's account.

    With an `Idempotency-Key` a repeated request is booked once and answered alike.
    """
    kit.set_message("The amount is booked.")
    return credits.grant(
        billing_users.get(account_id), actor=kit.get_current_actor(), idempotency_key=idempotency.get_key(), **body
    )


@billing.get("/user/<account_id>/usage", op="usage", can=BILLING_PERMISSION, query=UsageQuery, out=REPORT_RESPONSE)
def usage(query, account_id):
    """Show a user's usage of a month, resource by resource.

    `month` is a calendar month in UTC, by default the current one.
    """
    return build_report(billing_users.get(account_id), **query)


@billing.post("/user/<account_id>/sso", op="sso", can=BILLING_PERMISSION, body=SsoIn, out=SsoOut)
def sign_in_link(body, account_id):
    """Make a link that signs the user in.

    It works once and leads to the user's first page. A second factor, if the user has one, is asked for as always.
    """
    kit.set_message("The link is made.")
    return sso.create_link(billing_users.get(account_id), redirect_to=url_for("overview.show"), **body)
