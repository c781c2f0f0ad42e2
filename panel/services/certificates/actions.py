"""Adding, renaming, replacing and removing certificates."""

from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Certificate
from panel.services import account_limits, tasks
from panel.services.certificates import orders, pem
from panel.services.certificates.read import find_latest_order
from panel.services.crud import update_fields

PEM_FIELDS = ("certificate", "chain", "private_key")
MANUAL_ONLY_MESSAGE = "Only an uploaded certificate can be replaced. This one is renewed by itself."


def create(account, *, actor, type="manual", **wanted):
    """A new certificate of the account: uploaded, or ordered from the authority."""
    return (
        orders.order_certificate(account, actor=actor, **wanted) if type == "letsencrypt" else upload(account, **wanted)
    )


def upload(account, *, certificate, private_key, chain=None, name=None):
    """A new certificate of the account, if its limit allows one more."""
    found = pem.parse_certificate(certificate, chain, private_key)
    account_limits.ensure_one_more(account.id, "max_certificates")
    called = name or (found["domains"] or ["Certificate"])[0]
    made = Certificate(account_id=account.id, type="manual", name=called, **found)
    session.add(made)
    session.flush()
    return made


def update(row, **changes):
    """Renames it, or puts another certificate with its key in its place. What uses it gets the new one."""
    sent = {field: changes.pop(field) for field in PEM_FIELDS if field in changes}
    if sent:
        changes |= get_replacement_columns(row, sent)
    return update_fields(row, changes)


def get_replacement_columns(row, sent):
    """The columns of another certificate for the row. The old chain goes with the old certificate."""
    if row.type != "manual":
        raise Invalid(MANUAL_ONLY_MESSAGE, **{field: MANUAL_ONLY_MESSAGE for field in sent})
    missing = {field: "Send certificate and private_key together." for field in ("certificate", "private_key")}
    if missing := {field: words for field, words in missing.items() if not sent.get(field)}:
        raise Invalid("A certificate is replaced together with its key.", **missing)
    return pem.parse_certificate(sent["certificate"], sent.get("chain"), sent["private_key"])


def delete(row):
    """Removes it with its key. An order that is under way is ended first."""
    order = find_latest_order(row)
    if order and order.cancellable:
        tasks.cancel(order)
    session.delete(row)
    session.flush()
