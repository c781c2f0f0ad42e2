"""Acting as a customer, through the operators' API (specification 4.7, 5.9)."""

from api import kit
from panel.schemas.tokens import ImpersonationIn, ImpersonationOut
from panel.services import impersonations
from panel.web.audit_view import audit_label

admin = kit.Admin("impersonation", __name__, description="Acting as a customer")


@admin.post(
    "/user/<account_id>/impersonate",
    op="start",
    can="admin:accounts:write",
    body=ImpersonationIn,
    out=ImpersonationOut,
)
@audit_label("Start acting as the customer")
def start(body, account_id):
    """Mint a token that acts as a customer.

    It opens the user API as that person, a member of a team within the member's role. It cannot make or change tokens,
    the password or second factors. `POST /api/profile/impersonation/stop` ends it. Operators cannot be impersonated.
    """
    account = impersonations.get_customer(account_id)
    token, value = impersonations.create_token(account, issued_by=kit.get_current_actor(), **body)
    kit.set_message(f"The token acts as {account.email}.")
    return {"token": value, "token_id": token.id, "expires_at": token.expires_at}
