"""Impersonation of a customer, through the operators' API."""

from api import kit
from panel.schemas.tokens import ImpersonationIn, ImpersonationOut
from panel.services import impersonations
from panel.web.audit_view import audit_label

admin = kit.Admin("impersonation", __name__, description="Impersonation")


@admin.post(
    "/user/<account_id>/impersonate",
    op="start",
    can="admin:accounts:write",
    body=ImpersonationIn,
    out=ImpersonationOut,
)
@audit_label("Start acting as the customer")
def start(body, account_id):
    """Create a token to impersonate a customer.

    The token accesses the user API as that user, for a team member within the member's role. It cannot create or change
    tokens, change the password or change second factors. End it with `POST /api/profile/impersonation/stop`. Operators
    cannot be impersonated.
    """
    account = impersonations.get_customer(account_id)
    token, value = impersonations.create_token(account, issued_by=kit.get_current_actor(), **body)
    kit.set_message(f"Impersonation of {account.email} started.")
    return {"token": value, "token_id": token.id, "expires_at": token.expires_at}
