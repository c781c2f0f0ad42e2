"""Connectors: public addresses of micro VMs, `https://<label>.<sandbox domain>`. The router carries their requests."""

import secrets
from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal, null, select
from sqlalchemy.orm import with_expression

from panel.core import context
from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import Message, message
from panel.models import Account, Microvm, MicrovmConnector
from panel.services import account_limits, ids
from panel.services.access import Access
from panel.services.microvms import actions, read

LIMIT = "max_serverless_apps"
"""The account's limit of micro VMs that have a connector."""
MAX_CONNECTORS_PER_MICROVM = 10
LABEL_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
LABEL_LENGTH = 12
NO_DOMAIN_MESSAGE = message("Your provider has not set up a domain for public addresses.")


def listing(account: Access | Account | None = None, *, microvm_id: str | None = None) -> Select[MicrovmConnector]:
    """Select connectors, newest first; with an account only its own."""
    query = select(MicrovmConnector).options(with_expression(MicrovmConnector.url, url_expression()))
    query = query.order_by(MicrovmConnector.id.desc())
    if account:
        query = query.where(account.visible_rows(MicrovmConnector))
    return query.where(MicrovmConnector.microvm_id == microvm_id) if microvm_id else query


def url_expression() -> ColumnElement[Any]:
    domain = context.current().config.sandbox_domain
    return literal("https://") + MicrovmConnector.label + literal(f".{domain}") if domain else null()


def get(connector_id: str, account: Access | Account) -> MicrovmConnector:
    query = listing(account).where(MicrovmConnector.id == connector_id)
    connector = session.scalar(query.execution_options(populate_existing=True))
    if connector is None:
        raise NotFound(message("No such public address."))
    return connector


def create_error() -> Message | None:
    """Return why no connectors can be added on this installation, or None."""
    return None if context.current().config.sandbox_domain else NO_DOMAIN_MESSAGE


def create(account: Access | Account, *, microvm_id: str, port: int, label: str | None = None) -> MicrovmConnector:
    """Give a port of the micro VM a public address. A label is made up where none is given."""
    if error := create_error():
        raise Invalid(error, reason="no_sandbox_domain")
    microvm = lock_microvm(account, microvm_id)
    actions.ensure_not_final(microvm)
    count = session.scalars(select(func.count()).where(MicrovmConnector.microvm_id == microvm.id)).one()
    if count >= MAX_CONNECTORS_PER_MICROVM:
        sentence = message("A micro VM has at most {maximum} public addresses.", maximum=MAX_CONNECTORS_PER_MICROVM)
        raise Invalid(sentence, reason="connector_limit", microvm_id=sentence)
    if count == 0:
        account_limits.ensure_one_more(microvm.account_id, LIMIT, "microvm_id")
    if label is None:
        label = ids.generate_unique(MicrovmConnector.label, make_label)
    elif session.scalar(select(MicrovmConnector.id).where(MicrovmConnector.label == label)):
        raise Invalid(message("This name is taken."), label=message("This name is taken."))
    connector = MicrovmConnector(account_id=microvm.account_id, microvm_id=microvm.id, port=port, label=label)
    session.add(connector)
    session.flush()
    return get(connector.id, account)


def lock_microvm(account: Access | Account, microvm_id: str) -> Microvm:
    """Return the account's micro VM, locked, so that its connectors are counted by one request at a time."""
    visible_id = session.scalar(read.listing(account).with_only_columns(Microvm.id).where(Microvm.id == microvm_id))
    rows = read.lock(visible_id) if visible_id else []
    if not rows:
        sentence = message("No such micro VM.")
        raise Invalid(sentence, microvm_id=sentence)
    return rows[0]


def delete(connector: MicrovmConnector) -> None:
    """Remove the address. It leads nowhere from the next request on, and its label is free for everybody."""
    read.lock(connector.microvm_id)
    session.delete(connector)
    session.flush()


def make_label() -> str:
    return "".join(secrets.choice(LABEL_ALPHABET) for _ in range(LABEL_LENGTH))
