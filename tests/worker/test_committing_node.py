"""A node call ends the transaction, and is refused while the caller has uncommitted changes."""

import pytest
from sqlalchemy import update

from panel.core.db import session
from panel.models import Instance, Project
from worker.sync.committing_node import CommittingNode, UncommittedChanges


class RecordingNode:
    def __init__(self):
        self.in_transaction = []

    def ping(self):
        self.in_transaction.append(session().in_transaction())


@pytest.fixture
def recording_node():
    return RecordingNode()


@pytest.fixture
def instance(cast):
    row = cast.instance()
    session.commit()
    return row


def flush_change(instance):
    instance.hostname = "changed"
    session.flush()


def update_rows(instance):
    session.execute(update(Instance).where(Instance.id == instance.id).values(hostname="changed"))


ROW_CHANGES = [
    lambda instance: setattr(instance, "hostname", "changed"),
    lambda instance: session.add(Project(account_id=instance.account_id, name="New")),
    lambda instance: session.delete(instance),
    flush_change,
    update_rows,
]


def test_node_call_runs_without_open_transaction(instance, recording_node):
    session.get(Instance, instance.id, with_for_update=True, populate_existing=True)
    CommittingNode(recording_node).ping()
    assert recording_node.in_transaction == [False]


@pytest.mark.parametrize("change", ROW_CHANGES)
def test_node_call_with_uncommitted_changes_is_refused(instance, recording_node, change):
    change(instance)
    with pytest.raises(UncommittedChanges, match="ping"):
        CommittingNode(recording_node).ping()
    assert recording_node.in_transaction == []
    session.rollback()
    CommittingNode(recording_node).ping()


@pytest.mark.parametrize("change", ROW_CHANGES)
def test_node_call_after_commit_is_allowed(instance, recording_node, change):
    change(instance)
    session.commit()
    CommittingNode(recording_node).ping()
    assert recording_node.in_transaction == [False]


def test_node_call_after_savepoint_change_is_refused(instance, recording_node):
    with session.begin_nested():
        flush_change(instance)
    with pytest.raises(UncommittedChanges):
        CommittingNode(recording_node).ping()
