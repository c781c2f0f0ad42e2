"""Polls of hypervisors, and rows read again after them."""

from panel.core.db import session
from worker.sync import node_sync


def reload(row):
    return session.get(type(row), row.id, populate_existing=True)


def sync_nodes(*rows):
    """Poll the hypervisors, as workers do every few seconds."""
    for row in rows:
        node_sync.reconcile(row.id)
