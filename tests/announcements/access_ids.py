"""Ids of rows that the owner sees for the placeholders in paths, for tests/test_access.py."""

from datetime import timedelta

from panel.core import clock
from panel.core.db import session
from panel.services import accounts, announcements


def create_ids(api_as):
    owner = accounts.find_by_email("owner@example.com")
    times = {"ends_at": clock.now() + timedelta(days=1)}
    row = announcements.create(kind="maintenance", name="n", text="t", account_id=owner.id, **times)
    session.commit()
    return {"announcement_id": row.id}
