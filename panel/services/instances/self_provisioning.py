"""Creating instances by self-provisioning, from a resource pack where the account has one."""

from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.services import catalog, group_grants, resource_packs
from panel.services.hypervisors import HypervisorGroup
from panel.services.instances.create import create as create_row


def create_from_pack(account, *, location_id, plan_id, actor, pack_id=None, **facts):
    group = session.get(HypervisorGroup, location_id)
    if group is None or not (group.enabled and group_grants.can_choose(group, account)):
        raise Invalid(message("The location cannot be chosen."), location_id=message("No such location is open."))
    pack = resource_packs.choose_pack(account, location_id, catalog.get_offered_plan(group, plan_id), pack_id)
    facts |= {"billing_mode": "self_provisioned", "pack_id": pack and pack.id}
    return create_row(account, location_id=location_id, plan_id=plan_id, actor=actor, **facts)
