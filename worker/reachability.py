"""Looks at a node and a guest agent for a request that waits (panel.reachability)."""

from sqlalchemy import select

from panel import clock
from panel.db import session
from panel.models import Instance
from worker import agents, hypervisors
from worker.nodes.base import NodeError, Unreachable


def look(instance_id, with_agent):
    """Writes down whether the instance's node answers and, if asked for, its guest agent."""
    hypervisor_id = session.scalar(select(Instance.hypervisor_id).where(Instance.id == instance_id))
    if hypervisor_id is None:
        return session.rollback()
    node, asked = hypervisors.node_of(hypervisor_id), clock.now()
    try:
        node.ping()
    except NodeError as error:
        return hypervisors.silent(hypervisor_id, asked, error)
    note_node(hypervisor_id)
    if not with_agent:
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
