"""Credit: the ledgers of customers, for operators."""

from api import idempotency, kit
from panel.schemas.credits import AdminCreditIn, CreditOut, CreditPatch, CreditQuery
from panel.services import accounts, credits

admin = kit.Admin("credit", __name__, description="Customers' credit")
READ_PERMISSION, WRITE_PERMISSION = "admin:billing:read", "admin:billing:write"
LEDGER_IDEMPOTENCY_PARAMETER = {
    "in": "header",
    "name": idempotency.IDEMPOTENCY_HEADER,
    "description": "At most 255 characters. The same key with the same body is booked once and answered alike; with "
    "another body it is refused with 422.",
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
    """List credit that was given, adjusted or paid back, newest first.

    Charges for usage are not in it: see the history.
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
    """List every entry of the ledgers, charges for usage included, newest first.

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
    """Add credit to an account, pay something back or adjust its balance.

    It is booked at once. Credit and refunds are more than 0, an adjustment is not 0 (422 under `amount`). With an
    `Idempotency-Key` a repeated request is booked once and answered alike.
    """
    owner = accounts.get(body.pop("user_id"), "user_id")
    kit.set_message("The amount is booked.")
    return credits.grant(owner, actor=kit.get_current_actor(), idempotency_key=idempotency.get_key(), **body)


@admin.patch("/cloud-service/credit/<entry_id>", op="update", can=WRITE_PERMISSION, body=CreditPatch, out=CreditOut)
def update(body, entry_id):
    """Change what an entry counts as.

    Entries are never rewritten: the difference is booked as an adjustment, which is the answer. Refused with 409 for
    charges and for adjustments of other entries.
    """
    kit.set_message("The difference is booked.")
    return credits.correct(credits.get(entry_id), actor=kit.get_current_actor(), **body)


@admin.delete("/cloud-service/credit/<entry_id>", op="delete", can=WRITE_PERMISSION, out=CreditOut)
def delete(entry_id):
    """Take an entry back.

    It stays in the ledger, and an adjustment, which is the answer, takes away what it counted as.
    """
    kit.set_message("Entry reversed.")
    return credits.correct(credits.get(entry_id), amount=0, actor=kit.get_current_actor(), description="Reversed")
