"""Looks at a node and a guest agent for a request that waits (panel.reachability)."""

from panel import clock
from panel.db import session
from panel.models import Hypervisor
from worker import agents, hypervisors
from worker.nodes.base import NodeError, Unreachable


def look(hypervisor_id, instance_id=None):
    """Writes down whether the node answers and, with an instance of it, whether that one's guest agent does."""
    if session.get(Hypervisor, hypervisor_id) is None:
        return session.rollback()
    node, asked = hypervisors.node_of(hypervisor_id), clock.now()
    try:
        node.ping()
    except NodeError as error:
        return hypervisors.silent(hypervisor_id, asked, error)
    note_node(hypervisor_id)
    if instance_id is None:
        return None
    asked, answered = clock.now(), False
    try:
        node.agent_ping(instance_id)
        answered = True
    except Unreachable as error:
        return hypervisors.silent(hypervisor_id, asked, error)
    except NodeError:
        session.rollback()
    return agents.note([instance_id], answered, asked)


def note_node(hypervisor_id):
    row = hypervisors.locked(hypervisor_id)
    if row is not None and row.status == "up":
        row.seen_at = clock.now()
    session.commit()
