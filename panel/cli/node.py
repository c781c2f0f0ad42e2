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
from worker.sync import node_sync as nodes


@click.group()
def command():
    """Add, look at and (for tests) disturb hypervisors."""


@command.command()
@click.argument("name")
@click.option("--driver", type=click.Choice(DRIVERS), default="libvirt")
@click.option("--uri", required=True, help="qemu+tls://host/system, qemu+ssh://…, simulated://…")
@click.option("--group", required=True, help="Name of the hypervisor group; made when there is none.")
@click.option("--storage", default="/var/lib/libvirt/images", show_default=True, help="Where its disks lie.")
@click.option("--network", default="public", show_default=True, help="Its name for the public network.")
def add(name, driver, uri, group, storage, network):
    """Add a hypervisor and look at it."""
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
    """Look at a hypervisor now, and say what it can do."""
    with app_context():
        print_state(get_hypervisor(name))


def print_state(row):
    nodes.probe(row.id)
    if row.status != "up":
        raise Problem(f"{row.name} is {row.status}: {row.status_detail}")
    click.echo(f"{row.name} is up: {row.version}, {row.cpu_cores} cores, {row.memory_mb} MiB. {row.acceleration_note}")


@command.command("list")
def listing():
    """Every hypervisor, as the workers last saw it."""
    with app_context():
        for row in session.scalars(hypervisors.listing()).all():
            click.echo(f"{row.name:20} {row.group.name:16} {row.status:8} {row.driver:10} {row.uri}")


@command.command()
def stop():
    """Stop this machine's own hypervisor and the machines on it. `panel setup` starts it again."""
    directory = load().data_dir / "hypervisor"
    if not directory.exists():
        raise Problem("This machine has no hypervisor of its own.")
    from worker.nodes.libvirt import private_daemon

    private_daemon.stop(directory)


@command.command()
@click.argument("name")
@click.argument("operation")
@click.argument("kind", type=click.Choice(FAULT_KINDS), required=False)
@click.option("--count", type=int, help="How many calls meet it; all when not given.")
@click.option("--seconds", type=float, help="For `slow`.")
def fault(name, operation, kind, count, seconds):
    """Make an OPERATION of a simulated hypervisor (`*`: every one) go wrong, or `clear` all faults."""
    with app_context():
        row = get_hypervisor(name)
        if row.driver != "simulated":
            raise Problem(f"{name} is not simulated.")
        node = nodes.connect_node(row.id)
        if operation == "clear":
            node.clear()
        elif kind is None:
            raise Problem(f"What shall go wrong? One of {', '.join(FAULT_KINDS)}.")
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
        raise Problem(f"There is no hypervisor named {name}.")
    return row
