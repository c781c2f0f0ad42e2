"""Looks at a node and a guest agent for a request that waits (panel.workflows.reachability)."""

from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor
from worker.nodes.base import NodeError, Unreachable
from worker.sync import guest_agents, node_sync


def poll(hypervisor_id, instance_id=None):
    """Writes down whether the node answers and, with an instance of it, whether that one's guest agent does."""
    if session.get(Hypervisor, hypervisor_id) is None:
        return session.rollback()
    node, asked = node_sync.connect_node(hypervisor_id), clock.now()
    try:
        node.ping()
    except NodeError as error:
        return node_sync.mark_unreachable(hypervisor_id, asked, error)
    record_node_answer(hypervisor_id)
    if instance_id is None:
        return None
    asked, answered = clock.now(), False
    try:
        node.agent_ping(instance_id)
        answered = True
    except Unreachable as error:
        return node_sync.mark_unreachable(hypervisor_id, asked, error)
    except NodeError:
        session.rollback()
    return guest_agents.record_ping([instance_id], answered, asked)


def record_node_answer(hypervisor_id):
    row = node_sync.lock_hypervisor(hypervisor_id)
    if row is not None and row.status == "up":
        row.seen_at = clock.now()
    session.commit()
