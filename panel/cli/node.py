"""`panel node`: add, check and list hypervisors."""

import click
from sqlalchemy import select

from panel.cli.context import app_context
from panel.core.config import load
from panel.core.db import session
from panel.core.errors import Problem
from panel.models import Hypervisor, HypervisorGroup
from panel.services import hypervisors
from worker.nodes import DRIVERS
from worker.nodes.simulated.fault_injection import FAULT_KINDS
from worker.sync import node_sync


@click.group()
def command():
    """Add, check, list and stop hypervisors. For tests, inject faults."""


@command.command()
@click.argument("name")
@click.option("--driver", type=click.Choice(DRIVERS), default="libvirt")
@click.option("--uri", required=True, help="qemu+tls://host/system, qemu+ssh://…, simulated://…")
@click.option("--group", required=True, help="Name of the hypervisor group. Created if it does not exist.")
@click.option("--storage", default="/var/lib/libvirt/images", show_default=True, help="Directory for disks.")
@click.option("--network", default="public", show_default=True, help="Name of the public network on the host.")
def add(name, driver, uri, group, storage, network):
    """Add a hypervisor and test the connection."""
    with app_context():
        location = session.scalar(select(HypervisorGroup).where(HypervisorGroup.name == group))
        location = location or hypervisors.create_group(name=group)
        hypervisor = hypervisors.create(
            location, name=name, driver=driver, uri=uri, storage_path=storage, network=network
        )
        session.commit()
        print_state(hypervisor)


@command.command()
@click.argument("name")
def check(name):
    """Test the connection to a hypervisor and show its capabilities."""
    with app_context():
        print_state(get_hypervisor(name))


def print_state(row):
    node_sync.probe(row.id)
    if row.status != "up":
        raise Problem(f"{row.name} is {row.status}: {row.status_detail}")
    click.echo(f"{row.name} is up: {row.version}, {row.cpu_cores} cores, {row.memory_mb} MiB. {row.acceleration_note}")


@command.command("list")
def listing():
    """List hypervisors with the last status that workers recorded."""
    with app_context():
        for row in session.scalars(hypervisors.listing()).all():
            click.echo(f"{row.name:20} {row.group.name:16} {row.status:8} {row.driver:10} {row.uri}")


@command.command()
def stop():
    """Stop the local hypervisor and all instances on it. `panel setup` starts it again."""
    directory = load().data_dir / "hypervisor"
    if not directory.exists():
        raise Problem("This machine has no local hypervisor.")
    from worker.nodes.libvirt import private_daemon

    private_daemon.stop(directory)


@command.command()
@click.argument("name")
@click.argument("operation")
@click.argument("kind", type=click.Choice(FAULT_KINDS), required=False)
@click.option("--count", type=int, help="How many calls fail. Default: all.")
@click.option("--seconds", type=float, help="Delay of `slow`.")
def fault(name, operation, kind, count, seconds):
    """Inject a fault into an OPERATION of a simulated hypervisor (`*` for all), or `clear` all faults."""
    with app_context():
        row = get_hypervisor(name)
        if row.driver != "simulated":
            raise Problem(f"{name} is not simulated.")
        node = node_sync.connect_node(row.id)
        if operation == "clear":
            node.clear()
        elif kind is None:
            raise Problem(f"Choose a fault: {', '.join(FAULT_KINDS)}.")
        else:
            set_fault(node, operation, kind, count, seconds)
        for active_fault in node.faults():
            click.echo(f"{active_fault.operation}: {active_fault.kind} ({active_fault.remaining or 'all'} calls)")


def set_fault(node, operation, kind, count, seconds):
    try:
        node.fault(operation, kind, count, seconds)
    except ValueError as error:
        raise Problem(str(error)) from None


def get_hypervisor(name):
    row = session.scalar(select(Hypervisor).where(Hypervisor.name == name))
    if row is None:
        raise Problem(f"Hypervisor {name} not found.")
    return row
