"""The network of a node's micro VMs, and the filters of their interfaces."""

import contextlib
import socket
from urllib.parse import urlsplit

import psutil
import structlog
from sqlalchemy import select

from panel.core import context, jobs
from panel.core.db import session
from panel.core.messages import message
from panel.models import MicrovmProfile
from panel.services.microvms import egress, network, read
from panel.services.microvms.network import APPLY_TASK_KIND
from worker.engine.registry import periodic, task_handler
from worker.nodes.base import SANDBOX_NETWORK_NAME, Egress, Nic, NodeError, NotOnNode, SandboxNetwork
from worker.sync.node_sync import connect_node
from worker.tasks.microvm_host_names import resolve

log = structlog.get_logger()

REFRESH_INTERVAL_SECONDS = 60


def build_nics(microvm):
    """Return the NICs of a micro VM: one, or none where the operator offered no internet access."""
    if microvm.address is None:
        return ()
    rules = egress.compute_egress(microvm.allow_internet_access, microvm.allow_out, microvm.deny_out)
    return (
        Nic(
            mac=microvm.mac,
            network=SANDBOX_NETWORK_NAME,
            addresses=(microvm.address,),
            mail=False,
            egress=Egress(rules.allowed, rules.denied),
        ),
    )


def ensure_network(node, microvm):
    """Prepare the node's network for the micro VM's NIC."""
    if microvm.address is not None:
        node.ensure_sandbox_network(build_network(microvm.profile, microvm.hypervisor.uri))


def build_network(profile, node_uri):
    """Return the network of a node. Without internet access it refuses everything."""
    known = (network.list_subnets(), profile.refused_networks, list_platform_addresses(node_uri))
    refused = egress.compute_refused(profile.allows_internet_access, *known)
    return SandboxNetwork(profile.address_range, refused)


def list_platform_addresses(node_uri):
    """Return the addresses of the node, and those of all nodes and of the panel as far as their names say them."""
    config = context.current().config
    uris = [*network.list_node_uris(), config.public_url, config.sandbox_url, config.database_url, config.redis_url]
    if config.sandbox_domain:
        uris.append(f"//api.{config.sandbox_domain}")
    names = {urlsplit(uri).hostname for uri in uris}
    addresses = resolve(*sorted(filter(None, names)))
    return [*list_own_addresses(), *addresses] if is_local(node_uri) else addresses


def is_local(node_uri):
    """Return whether the node is this machine, whose addresses are known."""
    host = urlsplit(node_uri).hostname
    return host is None or not set(resolve(host)).isdisjoint(list_own_addresses())


def list_own_addresses():
    """Return the IPv4 addresses of this machine."""
    return [
        entry.address
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family == socket.AF_INET
    ]


def on_apply_failed(row, error):
    """Show that the earlier rules may still be in force. The next start applies the new ones."""
    for microvm in read.lock(row.resource_id):
        microvm.error = message("The network could not be updated. {error}", error=error)


@task_handler(APPLY_TASK_KIND, conflicts_with=(APPLY_TASK_KIND,), on_failure=on_apply_failed)
def apply(work):
    """Update the machine's NICs from its row. A machine that does not exist gets them when it is defined."""
    microvm = read.find_by_id(work.task.resource_id)
    if microvm is None or microvm.state == "destroying":
        return
    work.step(message("Updating the network"), 20)
    nics = build_nics(microvm)
    with contextlib.suppress(NotOnNode):
        work.node.update_nics(microvm.id, nics)


def refresh(hypervisor_id):
    """Update the refusals of a node's network. A node that does not answer is asked again at the next time."""
    profile = session.scalar(select(MicrovmProfile).where(MicrovmProfile.hypervisor_id == hypervisor_id))
    if profile is None or hypervisor_id not in network.list_connected_nodes():
        return session.rollback()
    sandbox_network = build_network(profile, profile.hypervisor.uri)
    node = connect_node(hypervisor_id)
    session.commit()
    try:
        node.ensure_sandbox_network(sandbox_network)
    except NodeError as error:
        log.warning("sandbox_network_not_updated", hypervisor=hypervisor_id, detail=error.detail)


@periodic(seconds=REFRESH_INTERVAL_SECONDS)
def refresh_networks():
    """Update the networks of all nodes: subnets, nodes and addresses of names change."""
    hypervisor_ids = network.list_connected_nodes()
    session.rollback()
    for hypervisor_id in hypervisor_ids:
        jobs.enqueue_call("worker.tasks.microvm_network.refresh", hypervisor_id)
