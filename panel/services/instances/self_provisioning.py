"""Creating instances by self-provisioning, from a resource pack where the account has one."""

from typing import Any

from panel.models import Account, Instance
from panel.services import catalog, resource_packs
from panel.services.access import Access
from panel.services.instances.create import create as create_instance


def create_from_pack(
    account: Access | Account, *, location_id: str, plan_id: str, actor: str, pack_id: str | None = None, **facts: Any
) -> Instance:
    group = catalog.get_location(location_id, account, "location_id")
    pack = resource_packs.choose_pack(account, location_id, catalog.get_offered_plan(group, plan_id), pack_id)
    facts |= {"billing_mode": "self_provisioned", "pack_id": pack and pack.id}
    return create_instance(account, location_id=location_id, plan_id=plan_id, actor=actor, **facts)
