"""Search over the whole platform, for operators: a fixed number of queries, each with a limit."""

import ipaddress
import re

from sqlalchemy import or_, select

from panel.core.db import session
from panel.models import Account, Address, Hypervisor, Image, Instance, Interface, Plan, PlanGroup, Subnet, Task

MIN_ID_LENGTH = 8
"""How many characters of an id are required: the first eight are its time."""
ID_PATTERN = re.compile(r"[0-9a-f-]{8,36}", re.IGNORECASE)
ADDRESS_PATTERN = re.compile(r"[0-9a-f]*[.:][0-9a-f.:/]*", re.IGNORECASE)
REQUIRED_PERMISSIONS = {
    "instance": "admin:instances:read",
    "customer": "admin:accounts:read",
    "hypervisor": "admin:hypervisors:read",
    "task": "admin:tasks:read",
    "subnet": "admin:subnets:read",
    "address": "admin:subnets:read",
    "image": "admin:images:read",
    "plan": "admin:catalog:read",
}
"""What can be found, in the order of the results, and the permission for each kind."""


def search(text, limit, may):
    """Yield for each kind that `may` allows and that has matches: the kind, and rows of id, label and further text."""
    for kind, permission in REQUIRED_PERMISSIONS.items():
        query = QUERIES[kind](text) if may(permission) else None
        rows = session.execute(query.limit(limit)).all() if query is not None else []
        if rows:
            yield kind, [tuple(row) for row in rows]


def select_instances(text):
    """Select by name, host name, id, number, owner or the beginning of an address."""
    conditions = [
        starts_with(Instance.name, text.lower()),
        contains_text(Instance.display_name, text),
        contains_text(Instance.hostname, text),
    ]
    conditions.append(contains_text(Account.email, text))
    if is_id(text):
        conditions.append(starts_with(Instance.id, text.lower()))
    if ADDRESS_PATTERN.fullmatch(text):
        instance_ids = select(Interface.instance_id).join(Address, Address.interface_id == Interface.id)
        conditions.append(Instance.id.in_(instance_ids.where(starts_with(Address.ip, text.lower()))))
    subtitle = Instance.name + " · " + Account.email
    query = select(Instance.id, Instance.display_name, subtitle).join(Account, Account.id == Instance.account_id)
    return query.where(or_(*conditions)).order_by(Instance.id.desc())


def select_customers(text):
    columns = (Account.email, Account.first_name, Account.last_name, Account.company_name)
    conditions = [contains_text(column, text) for column in columns] + [Account.id == text.lower()]
    return select(Account.id, Account.email, Account.company_name).where(or_(*conditions)).order_by(Account.id.desc())


def select_hypervisors(text):
    condition = or_(contains_text(Hypervisor.name, text), Hypervisor.id == text.lower())
    return select(Hypervisor.id, Hypervisor.name, Hypervisor.status).where(condition).order_by(Hypervisor.name)


def select_tasks(text):
    """Select by the id or its beginning."""
    if not is_id(text):
        return None
    query = select(Task.id, Task.kind, Task.resource_name).where(starts_with(Task.id, text.lower()))
    return query.order_by(Task.id.desc())


def select_subnets(text):
    condition = or_(contains_text(Subnet.name, text), starts_with(Subnet.cidr, text.lower()), covers_address(text))
    return select(Subnet.id, Subnet.name, Subnet.cidr).where(condition).order_by(Subnet.name)


def select_addresses(text):
    """Select the subnet's id, the address, and the instance that has it."""
    if not ADDRESS_PATTERN.fullmatch(text):
        return None
    query = select(Address.subnet_id, Address.ip, Instance.display_name).where(starts_with(Address.ip, text.lower()))
    query = query.outerjoin(Interface, Interface.id == Address.interface_id)
    return query.outerjoin(Instance, Instance.id == Interface.instance_id).order_by(Address.ip)


def select_images(text):
    condition = or_(contains_text(Image.label, text), contains_text(Image.name, text), Image.id == text.lower())
    return select(Image.id, Image.label, Image.name).where(condition).order_by(Image.label)


def select_plans(text):
    query = select(Plan.id, Plan.name, PlanGroup.display_name).join(PlanGroup, PlanGroup.id == Plan.plan_group_id)
    return query.where(or_(contains_text(Plan.name, text), Plan.id == text.lower())).order_by(Plan.name)


QUERIES = {
    "instance": select_instances,
    "customer": select_customers,
    "hypervisor": select_hypervisors,
    "task": select_tasks,
    "subnet": select_subnets,
    "address": select_addresses,
    "image": select_images,
    "plan": select_plans,
}


def starts_with(column, text):
    return column.startswith(text, autoescape=True)


def contains_text(column, text):
    return column.icontains(text, autoescape=True)


def is_id(text):
    return ID_PATTERN.fullmatch(text) is not None


def covers_address(text):
    """Return the condition that a subnet contains the address, by a comparison with all networks around it."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return Subnet.id.is_(None)
    networks = (ipaddress.ip_network((address, length), strict=False) for length in range(address.max_prefixlen + 1))
    return Subnet.cidr.in_([str(network) for network in networks])
