"""Finding instances."""

from sqlalchemy import or_, select
from sqlalchemy.orm import joinedload, selectinload

from panel.db import session
from panel.errors import NotFound
from panel.models import Address, Disk, Instance, Interface
from panel.models.instances import in_state

SHOWN = (
    joinedload(Instance.group),
    joinedload(Instance.plan),
    joinedload(Instance.image),
    joinedload(Instance.hypervisor),
    joinedload(Instance.account),
    selectinload(Instance.interfaces).selectinload(Interface.addresses).joinedload(Address.subnet),
    selectinload(Instance.disks),
)
"""What a page or payload of an instance reads: fetched with the list, in a constant number of queries."""


def listing(account=None, *, search=None, state=None, hypervisor_id=None):
    """Newest first. With an account, only its own. `search` looks at names, host names and addresses."""
    query = select(Instance).options(*SHOWN).order_by(Instance.id.desc())
    if account:
        query = query.where(Instance.account_id == account.id)
    if search:
        held = Instance.interfaces.any(Interface.addresses.any(Address.ip.startswith(search, autoescape=True)))
        names = (Instance.display_name, Instance.hostname, Instance.name)
        query = query.where(or_(held, *(c.icontains(search, autoescape=True) for c in names)))
    if state:
        query = query.where(in_state(state))
    if hypervisor_id:
        query = query.where(Instance.hypervisor_id == hypervisor_id)
    return query


def get(instance_id, account=None):
    """The instance, if it is there and (with an account) belongs to it."""
    instance = session.scalar(listing(account).where(Instance.id == instance_id))
    if instance is None:
        raise NotFound("No such instance.")
    return instance


def by_id(instance_id):
    """The instance or None, read anew: for workers, whose rows may have been changed by others."""
    return session.scalar(
        select(Instance).where(Instance.id == instance_id).options(*SHOWN).execution_options(populate_existing=True)
    )


def addresses(instance):
    """Its addresses, in the order of its interfaces."""
    held = select(Address).join(Interface).where(Interface.instance_id == instance.id)
    return held.options(joinedload(Address.subnet)).order_by(Interface.position, Address.sort_key)


def disks(instance):
    return select(Disk).where(Disk.instance_id == instance.id).order_by(Disk.position, Disk.id)
