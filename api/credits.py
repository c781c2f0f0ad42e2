"""Credit: the ledgers of customers, for operators."""

from api import idempotency, kit
from panel.schemas.credits import AdminCreditIn, CreditOut, CreditPatch, CreditQuery
from panel.services import accounts, credits

admin = kit.Admin("credit", __name__, description="Customers' credit")
READ_PERMISSION, WRITE_PERMISSION = "admin:billing:read", "admin:billing:write"
LEDGER_IDEMPOTENCY_PARAMETER = {
    "in": "header",
    "name": idempotency.IDEMPOTENCY_HEADER,
    "description": "At most 255 characters. A repeated request with the same key and body is booked once and gets the "
    "same response; with another body it returns 422.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "example": "payment-1042",
}
BOOKED_ONCE = {"once": False, "idempotency_key": LEDGER_IDEMPOTENCY_PARAMETER}
"""The ledger stores these keys itself, per account and without expiry."""


@admin.get(
    "/cloud-service/credits",
    op="list",
    can=READ_PERMISSION,
    query=CreditQuery,
    out=kit.build_admin_page_schema(CreditOut),
)
def listing(query):
    """List credit, adjustments and refunds, newest first.

    Charges for usage are not included: see the credit history.
    """
    return list_entries(credits.GRANTED_KINDS, **query)


@admin.get(
    "/cloud-service/credit-history",
    op="history",
    can=READ_PERMISSION,
    query=CreditQuery,
    out=kit.build_admin_page_schema(CreditOut),
)
def history(query):
    """List all ledger entries, including usage charges, newest first.

    The balance of an account is the sum of its entries.
    """
    return list_entries(None, **query)


def list_entries(kinds, user_id=None):
    owner = accounts.get(user_id, "user_id") if user_id else None
    return kit.paginate(credits.listing(owner, kinds=kinds))


@admin.post(
    "/cloud-service/credits", op="create", can=WRITE_PERMISSION, body=AdminCreditIn, out=CreditOut, **BOOKED_ONCE
)
def create(body):
    """Add credit to an account, refund it or adjust its balance.

    Takes effect immediately. Credit and refunds must be greater than 0, an adjustment must not be 0 (422 under
    `amount`). With an `Idempotency-Key`, a repeated request is booked once and gets the same response.
    """
    owner = accounts.get(body.pop("user_id"), "user_id")
    kit.set_message("Ledger entry created.")
    return credits.grant(owner, actor=kit.get_current_actor(), idempotency_key=idempotency.get_key(), **body)


@admin.patch("/cloud-service/credit/<entry_id>", op="update", can=WRITE_PERMISSION, body=CreditPatch, out=CreditOut)
def update(body, entry_id):
    """Correct the amount of a ledger entry.

    Entries are never rewritten: the difference is booked as an adjustment, which is returned. Returns 409 for usage
    charges and for adjustments that correct another entry.
    """
    kit.set_message("Adjustment created.")
    return credits.correct(credits.get(entry_id), actor=kit.get_current_actor(), **body)


@admin.delete("/cloud-service/credit/<entry_id>", op="delete", can=WRITE_PERMISSION, out=CreditOut)
def delete(entry_id):
    """Reverse a ledger entry.

    The entry stays in the ledger; an adjustment that cancels its amount is booked and returned.
    """
    kit.set_message("Entry reversed.")
    return credits.correct(credits.get(entry_id), amount=0, actor=kit.get_current_actor(), description="Reversed")
