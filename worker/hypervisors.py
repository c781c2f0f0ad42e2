"""Looking at nodes: reachable, what they can do, what runs on them."""

from functools import wraps

import structlog
from sqlalchemy import select

from panel import clock
from panel.db import session
from panel.models import Hypervisor, Instance, Interface, Task
from panel.models.tasks import OPEN
from panel.services import hypervisors
from panel.services.instances import seen
from worker import nodes
from worker.nodes.base import NodeError, NodeSpec, Power

log = structlog.get_logger()
data_dir = None
"""Where drivers may keep files of their own; set when the process starts."""


class Unheld:
    """A node whose every call first ends the open transaction: nothing in the database stays locked while it thinks."""

    def __init__(self, node):
        self.node = node

    def __getattr__(self, name):
        method = getattr(self.node, name)

        @wraps(method)
        def call(*args, **kwargs):
            session.commit()
            return method(*args, **kwargs)

        return call


def node_of(hypervisor_id) -> nodes.Node:
    row = session.get(Hypervisor, hypervisor_id)
    if row is None:
        raise NodeError("The hypervisor was removed.")
    return Unheld(nodes.connect(NodeSpec(row.id, row.name, row.driver, row.uri), data_dir))


def check(hypervisor_id):
    """Looks closely: capabilities, storages. Runs when a node was added or changed, and now and then."""
    row = session.get(Hypervisor, hypervisor_id)
    if row is None:
        return
    try:
        capabilities = node_of(row.id).capabilities()
        pools = [node_of(row.id).prepare_pool(storage.name, storage.path) for storage in row.storages]
    except NodeError as error:
        log.warning("node_unreachable", node=row.name, detail=error.detail)
        hypervisors.unseen(row, error.detail)
    else:
        log.info("node_checked", node=row.name, accelerated=capabilities.accelerated)
        hypervisors.seen(row, capabilities, pools)
    session.commit()
    refresh(hypervisor_id)


def refresh(hypervisor_id):
    """Compares every machine of the node with its row, in one call to the node."""
    row = session.get(Hypervisor, hypervisor_id)
    if row is None:
        return
    try:
        asked = clock.now()
        machines = {machine.id: machine for machine in node_of(row.id).machines()}
    except NodeError as error:
        if row.status != "down":
            log.warning("node_unreachable", node=row.name, detail=error.detail)
        hypervisors.unseen(row, error.detail)
        session.commit()
        return
    if row.status != "up" and not row.version:
        session.commit()
        return check(hypervisor_id)
    hypervisors.seen(row)
    for instance in session.scalars(select(Instance).where(Instance.hypervisor_id == row.id)):
        machine = machines.pop(instance.id, None)
        compare(instance, machine, asked)
    row.strangers = [{"id": machine.id, "name": machine.name} for machine in machines.values()]
    session.commit()


def compare(instance, machine, asked):
    """Writes what is different. A row that did not change is not touched."""
    if machine is None:
        if instance.deployed and not instance.lost and not at_work(instance):
            seen.lost(instance)
        return
    power = "off" if machine.power is Power.off else "on"
    if instance.power != power or instance.lost:
        seen.power(instance, power, at=asked)
    count(instance, machine)


def at_work(instance):
    """Whether a task is changing the instance, so that what the node shows may be half-way."""
    return session.scalar(select(Task.id).where(Task.resource_id == instance.id, Task.status.in_(OPEN)).limit(1))


def count(instance, machine):
    """Adds what passed since the last look; a counter that went back began anew with the machine."""
    if not machine.received and not machine.sent:
        return
    for interface in session.scalars(select(Interface).where(Interface.instance_id == instance.id)):
        received, sent = machine.received.get(interface.mac, 0), machine.sent.get(interface.mac, 0)
        interface.received += grown(received, interface.counted_received)
        interface.sent += grown(sent, interface.counted_sent)
        interface.counted_received, interface.counted_sent = received, sent


def grown(now, before):
    return now - before if now >= before else now


def refresh_all():
    """Looks at every node. Each is looked at by a call of its own, so that a silent one delays nobody."""
    from panel import jobs

    for hypervisor_id in session.scalars(select(Hypervisor.id)).all():
        session.commit()
        jobs.call("worker.hypervisors.refresh", hypervisor_id)


def changed(hypervisor_id, instance_id, power):
    """What a node's event said: one machine's power, or (None) that it was removed."""
    instance = session.get(Instance, instance_id)
    if instance is None or instance.hypervisor_id != hypervisor_id:
        return
    if power is None:
        if instance.deployed and not at_work(instance):
            seen.lost(instance)
    else:
        seen.power(instance, "off" if power is Power.off else "on")
    session.commit()
