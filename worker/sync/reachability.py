"""Polling a node and a guest agent for a request that waits (`panel.workflows.reachability`)."""

from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor
from worker.nodes.base import NodeError, Unreachable
from worker.sync import guest_agents, node_sync


def poll(hypervisor_id: str, instance_id: str | None = None) -> None:
    """Record whether the node answers and, if an instance is given, whether its guest agent does."""
    if session.get(Hypervisor, hypervisor_id) is None:
        return session.rollback()
    node, queried_at = node_sync.connect_node(hypervisor_id), clock.now()
    try:
        node.ping()
    except NodeError as error:
        return node_sync.mark_unreachable(hypervisor_id, queried_at, error)
    record_node_answer(hypervisor_id)
    if instance_id is None:
        return None
    queried_at, answered = clock.now(), False
    try:
        node.agent_ping(instance_id)
        answered = True
    except Unreachable as error:
        return node_sync.mark_unreachable(hypervisor_id, queried_at, error)
    except NodeError:
        session.rollback()
    return guest_agents.record_ping([instance_id], answered, queried_at)


def record_node_answer(hypervisor_id: str) -> None:
    row = node_sync.lock_hypervisor(hypervisor_id)
    if row is not None and row.status == "up":
        row.seen_at = clock.now()
    session.commit()
