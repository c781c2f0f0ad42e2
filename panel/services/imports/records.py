"""The rows of an imported machine. They are created at the end of the import task, so that nobody can deploy to the
machine, or destroy it and its data, before that."""

import secrets
from collections.abc import Mapping
from typing import Any

from panel.core import events
from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import Account, Disk, Hypervisor, Instance, Interface, Plan
from panel.services import address_allocation, usage
from panel.services.imports import addresses, validate


def create_instance(hypervisor_id: str, machine: dict[str, Any], arguments: Mapping[str, Any]) -> Instance:
    """Create the instance with its disks, interface and addresses; raise when the import is not possible any more.
    `chosen` are the arguments of the task."""
    hypervisor = session.get_one(Hypervisor, hypervisor_id)
    owner, plan = session.get(Account, arguments["account_id"]), session.get(Plan, arguments["plan_id"])
    if owner is None or plan is None:
        raise NotFound(message("The account or the plan was deleted in the meantime."))
    validate.ensure_compatible(hypervisor, machine, plan)
    instance = Instance(
        id=machine["id"],
        name=arguments["name"],
        display_name=arguments["display_name"],
        hostname=arguments["hostname"],
        account_id=owner.id,
        group=hypervisor.group,
        hypervisor=hypervisor,
        plan=plan,
        image=None,
        cpu_cores=plan.cpu_cores,
        ram=plan.ram,
        storage=machine["disks"][0]["size"],
        bandwidth=plan.bandwidth,
        tpm_enabled=machine["tpm"],
        secure_boot_enabled=machine["secure_boot"],
        vnc_password=secrets.token_urlsafe(6)[:8],
        deployed=True,
    )
    storages = {storage.name: storage for storage in hypervisor.storages}
    instance.disks = [
        Disk(storage=storages[disk["storage"]], name=disk["name"], position=position, size=disk["size"])
        for position, disk in enumerate(machine["disks"])
    ]
    public = hypervisor.group.public_networking_enabled
    if public or arguments["ips"]:
        kind = "public" if public else "private"
        instance.interfaces = [Interface(mac=arguments["mac"], kind=kind, port_speed=plan.port_speed)]
    session.add(instance)
    session.flush()
    if instance.interfaces:
        address_allocation.assign(
            instance, instance.interfaces[0], addresses.get_free_addresses(hypervisor, arguments["ips"])
        )
    session.refresh(instance)
    return instance


def complete_import(instance: Instance, *, actor: str) -> None:
    """Give the instance to its owner and start metering."""
    instance.account.grant_on_create(instance)
    usage.start_metering(
        "instance",
        instance,
        name=instance.display_name,
        plan=instance.plan.name,
        price=instance.plan.price,
        billing_mode=instance.billing_mode,
    )
    events.record("instance.created", "instance", instance, actor=actor)
