"""Fixtures of the inbox tests."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.core.messages import message
from panel.models import Account, InboxMessage
from panel.services import inbox


@pytest.fixture
def report(cast):
    """Return a function that records a report about the owner."""

    def report(key="task:1", kind="task_failed", caller="owner", **values):
        text = message("{task} of {name} failed: {error}", task="Backup", name="web-1", error="disk full")
        account_id = getattr(cast, caller).id
        count = inbox.record([inbox.Report(kind, key, account_id, **{"text": text, "path": "/tasks", **values})])
        session.commit()
        return count

    return report


@pytest.fixture
def read_inbox(cast):
    """Return a function that gives the texts that were recorded for a person, oldest first."""

    def read(caller="owner", kind=None):
        query = select(InboxMessage.text).join(Account, Account.id == InboxMessage.account_id)
        query = query.where(Account.email == getattr(cast, caller).email).order_by(InboxMessage.id)
        return session.scalars(query.where(InboxMessage.kind == kind) if kind else query).all()

    return read
