"""Creating instances: the row and its host, disk, interface and addresses are allocated in one transaction."""

import secrets
from typing import Any

from panel.core import events
from panel.core.db import session
from panel.models import Account, Disk, Hypervisor, Instance, Interface
from panel.services import address_allocation, backup_policies, catalog, placement, usage
from panel.services.access import Access
from panel.services.ids import generate_instance_name, generate_mac


def create(
    account: Access | Account,
    *,
    location_id: str,
    plan_id: str,
    actor: str,
    hostname: str | None = None,
    display_name: str | None = None,
    node: Hypervisor | None = None,
    **settings: Any,
) -> Instance:
    """Create an instance of the account, not deployed yet. Operators may choose its hypervisor (`node`), also in a
    location that is not open. Errors name the field; their `reason` tells what ran out."""
    group = node.group if node else catalog.get_location(location_id, account, "location_id")
    plan = catalog.get_offered_plan(group, plan_id)
    host, storage = placement.choose_host(group, plan, node)
    name = generate_instance_name()
    instance = Instance(
        name=name,
        display_name=display_name or hostname or name,
        hostname=hostname or name,
        account_id=account.id,
        group=group,
        hypervisor=host,
        plan=plan,
        image=None,
        cpu_cores=plan.cpu_cores,
        ram=plan.ram,
        storage=plan.storage,
        bandwidth=plan.bandwidth,
        vnc_password=secrets.token_urlsafe(6)[:8],
        **settings,
    )
    instance.disks = [Disk(storage_id=storage.id, name=f"{name}-0.qcow2", size=plan.storage)]
    if group.public_networking_enabled:
        instance.interfaces = [Interface(mac=generate_mac(), port_speed=plan.port_speed)]
    session.add(instance)
    session.flush()
    account.grant_on_create(instance)
    address_allocation.allocate_missing(instance, plan, "{}_not_available")
    usage.start_metering(
        "instance",
        instance,
        name=instance.display_name,
        plan=plan.name,
        price=0 if instance.pack_id else plan.price,
        billing_mode=instance.billing_mode,
    )
    backup_policies.attach_default(instance)
    events.record("instance.created", "instance", instance, actor=actor)
    session.flush()
    session.refresh(instance)
    return instance
