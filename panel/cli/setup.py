"""`panel setup`: create what a new installation needs before somebody can sign in and create an instance.

It runs at each `make run`. A step is skipped when a row of its kind exists, so that changes by operators are not
reverted. Progress goes to standard error; standard output has only the first passwords.
"""

import hashlib
import ipaddress
import secrets
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import click
from flask import current_app
from sqlalchemy import select

from panel.bootstrap import init_migrate
from panel.cli import image
from panel.cli.context import app_context
from panel.cli.db import check_known_revision, upgrade_tables
from panel.core.db import session
from panel.core.errors import Problem
from panel.models import Account, Hypervisor, HypervisorGroup, Image, PlanGroup, Subnet
from panel.services import accounts, catalog, hypervisors, subnets
from worker.images.commands import BuildFailed
from worker.sync import node_sync

DEFAULT_PLANS = (
    {"name": "Tiny", "cpu_cores": 1, "ram": 256, "storage": 2, "bandwidth": 500, "price": 2},
    {"name": "Small", "cpu_cores": 1, "ram": 512, "storage": 5, "bandwidth": 1000, "price": 4},
    {"name": "Medium", "cpu_cores": 1, "ram": 1024, "storage": 10, "bandwidth": 2000, "price": 8},
    {"name": "Large", "cpu_cores": 2, "ram": 2048, "storage": 20, "bandwidth": 4000, "price": 16},
)
DEFAULT_GATEWAYS = ("10.88.0.1/24", "fd88::1/64")
"""The addresses of the local hypervisor in its guests' network. A simulated hypervisor works with any."""

FALLBACK_RESOLVERS = {4: ["9.9.9.9"], 6: ["2620:fe::fe"]}
"""Resolvers for guests when this machine has none that they could reach."""


@click.command()
@click.option("--simulated", is_flag=True, help="Add a simulated hypervisor even if a local one can run.")
def command(simulated):
    """Create what a new installation lacks: tables, a location with plans and a hypervisor, an image, two accounts."""
    with app_context() as config:
        init_migrate(current_app)
        check_known_revision()
        upgrade_tables()
        location = find_first(HypervisorGroup) or hypervisors.create_group(name="local", display_name="This machine")
        if not find_first(PlanGroup):
            offer_plans(location)
        if not find_first(Subnet):
            offer_addresses(location)
        session.commit()
        node = ensure_hypervisor(location, config.data_dir, simulated)
        if not find_first(Image):
            offer_image(node, config.data_dir)
        session.commit()
        if not find_first(Account):
            create_first_accounts()


def find_first(model):
    return session.scalar(select(model).order_by(model.id).limit(1))


def print_progress(message):
    click.echo(message, err=True)


def offer_plans(location):
    group = catalog.create_plan_group(name="standard", display_name="Standard", hypervisor_groups=[location])
    for position, plan in enumerate(DEFAULT_PLANS):
        catalog.create_plan(group, position=position, **plan)


def offer_addresses(location):
    for gateway in map(ipaddress.ip_interface, DEFAULT_GATEWAYS):
        version = gateway.version
        subnets.create(
            location,
            name=f"local-v{version}",
            cidr=str(gateway.network),
            gateway=str(gateway.ip),
            nameservers=find_resolvers(version) or FALLBACK_RESOLVERS[version],
        )


def find_resolvers(version):
    """Return this machine's configured resolvers of the IP version, without local addresses."""
    resolvers = []
    for line in read_text(Path("/etc/resolv.conf")).splitlines():
        with suppress(ValueError):
            keyword, address = line.split()
            ip = ipaddress.ip_address(address)
            if keyword == "nameserver" and ip.version == version and not (ip.is_loopback or ip.is_link_local):
                resolvers.append(address)
    return resolvers


def read_text(file):
    return file.read_text() if file.exists() else ""


def ensure_hypervisor(location, data_dir, simulated):
    """Return the hypervisor that images are built for. Start this machine's own one, also after a reboot. If that is
    not possible, add a simulated one to a new installation."""
    local = session.scalar(select(Hypervisor).where(Hypervisor.uri == get_local_uri(data_dir)))
    hypervisor = local or find_first(Hypervisor)
    if hypervisor and not local:
        return hypervisor
    try:
        start_local(data_dir, simulated)
    except Problem as reason:
        print_progress(f"This machine cannot be a hypervisor: {reason}")
        return hypervisor or add_hypervisor(location, "simulated", "simulated", "simulated://", "/disks")
    return hypervisor or add_hypervisor(
        location, "this-machine", "libvirt", get_local_uri(data_dir), str(data_dir / "hypervisor" / "disks")
    )


def get_local_uri(data_dir):
    return f"qemu+unix:///system?socket={data_dir}/hypervisor/run/libvirt-sock"


def start_local(data_dir, simulated):
    """Start this machine's own hypervisor. Raise Problem with the reason when it cannot run."""
    if simulated:
        raise Problem("a simulated one was requested.")
    if not find_spec("libvirt"):
        raise Problem("the Python package libvirt-python is missing (it needs gcc, pkg-config and libvirt-dev).")
    import libvirt

    from worker.nodes.libvirt import private_daemon

    if missing := private_daemon.list_missing():
        raise Problem(" ".join(missing))
    try:
        private_daemon.start(data_dir / "hypervisor")
    except (private_daemon.NoHypervisor, libvirt.libvirtError) as error:
        raise Problem(str(error)) from None


def add_hypervisor(location, name, driver, uri, storage_path):
    print_progress(f"Adding the hypervisor {name} …")
    hypervisor = hypervisors.create(location, name=name, driver=driver, uri=uri, storage_path=storage_path)
    session.commit()
    node_sync.probe(hypervisor.id)
    print_progress(f"{name}: {hypervisor.status}. {hypervisor.status_detail or hypervisor.acceleration_note}")
    return hypervisor


def offer_image(node, data_dir):
    if node.driver == "simulated":
        return register_simulated(data_dir / "images" / "simulated.qcow2")
    try:
        image.build_image("tiny", data_dir, log=print_progress)
    except (Problem, BuildFailed) as error:
        print_progress(f"No image yet, so no instance can be created: {error} Then run: panel image build tiny")


def register_simulated(file):
    """Register a minimal file as an image. A simulated hypervisor copies images but never boots them."""
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"QFI\xfb" + (3).to_bytes(4) + bytes(504))
    catalog.register_image(
        name="simulated-linux",
        label="Simulated Linux",
        distro="simulated",
        version="1",
        filename=file.name,
        size=file.stat().st_size,
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        description="For simulated hypervisors. It is no operating system.",
    )


def create_first_accounts():
    """Create an operator and a customer, and print their passwords, of which only hashes are stored."""
    operator, customer = secrets.token_urlsafe(12), secrets.token_urlsafe(12)
    accounts.create(email="operator@example.com", password=operator, operator_role="full", first_name="Operator")
    accounts.create(email="customer@example.com", password=customer, first_name="Customer")
    session.commit()
    click.echo("Sign in (these passwords are shown only once):")
    click.echo(f"  as an operator   operator@example.com   {operator}")
    click.echo(f"  as a customer    customer@example.com   {customer}")
