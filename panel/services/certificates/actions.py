"""Creating, renaming, replacing and deleting certificates."""

from collections.abc import Mapping
from typing import Any

from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Account, Certificate
from panel.services import account_limits, tasks
from panel.services.access import Access
from panel.services.certificates import orders, pem
from panel.services.certificates.read import find_latest_order
from panel.services.crud import update_fields

PEM_FIELDS = ("certificate", "chain", "private_key")
MANUAL_ONLY_MESSAGE = message("Only an uploaded certificate can be replaced. This one is renewed automatically.")


def create(account: Access | Account, *, actor: str, type: str = "manual", **values: Any) -> Certificate:
    """Create a certificate of the account: uploaded, or ordered from the authority."""
    return (
        orders.order_certificate(account, actor=actor, **values) if type == "letsencrypt" else upload(account, **values)
    )


def upload(
    account: Access | Account, *, certificate: str, private_key: str, chain: str | None = None, name: str | None = None
) -> Certificate:
    """Create an uploaded certificate, if the account's limit allows one more."""
    columns = pem.parse_certificate(certificate, chain, private_key)
    account_limits.ensure_one_more(account.id, "max_certificates")
    display_name = name or (columns["domains"] or ["Certificate"])[0]
    row = Certificate(account_id=account.id, type="manual", name=display_name, **columns)
    session.add(row)
    session.flush()
    return row


def update(row: Certificate, **changes: Any) -> Certificate:
    """Rename the certificate, or replace certificate and key in place, so that whatever uses it gets the new one."""
    pem_texts = {field: changes.pop(field) for field in PEM_FIELDS if field in changes}
    if pem_texts:
        changes |= get_replacement_columns(row, pem_texts)
    return update_fields(row, changes)


def get_replacement_columns(row: Certificate, pem_texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of a replacement. Without a new chain the old one is removed."""
    if row.type != "manual":
        raise Invalid(MANUAL_ONLY_MESSAGE, **{field: MANUAL_ONLY_MESSAGE for field in pem_texts})
    missing = [field for field in ("certificate", "private_key") if not pem_texts.get(field)]
    if missing:
        both_needed = message("Send certificate and private_key together.")
        raise Invalid(
            message("A certificate is replaced together with its key."), **dict.fromkeys(missing, both_needed)
        )
    return pem.parse_certificate(pem_texts["certificate"], pem_texts.get("chain"), pem_texts["private_key"])


def delete(row: Certificate) -> None:
    """Delete the certificate with its key. An open order is cancelled first."""
    order = find_latest_order(row)
    if order and order.cancellable:
        tasks.cancel(order)
    session.delete(row)
    session.flush()
