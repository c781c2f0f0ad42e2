"""Finding anything on the platform, for operators: a fixed number of queries, each with a limit."""

import ipaddress
import re

from sqlalchemy import or_, select

from panel.core.db import session
from panel.models import Account, Address, Hypervisor, Image, Instance, Interface, Plan, PlanGroup, Subnet, Task

MIN_ID_LENGTH = 8
"""How many characters of an id have to be given: the first eight are its time."""
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
"""What can be found, in the order in which it is shown, and the permission that each kind needs."""


def search(text, limit, may):
    """For each kind that `may` allows and that has matches: the kind, and rows of id, label and further text."""
    for kind, permission in REQUIRED_PERMISSIONS.items():
        query = QUERIES[kind](text) if may(permission) else None
        rows = session.execute(query.limit(limit)).all() if query is not None else []
        if rows:
            yield kind, [tuple(row) for row in rows]


def select_instances(words):
    """By name, host name, id, number, owner or the beginning of an address."""
    found = [
        starts_with(Instance.name, words.lower()),
        contains_text(Instance.display_name, words),
        contains_text(Instance.hostname, words),
    ]
    found.append(contains_text(Account.email, words))
    if is_id(words):
        found.append(starts_with(Instance.id, words.lower()))
    if ADDRESS_PATTERN.fullmatch(words):
        cards = select(Interface.instance_id).join(Address, Address.interface_id == Interface.id)
        found.append(Instance.id.in_(cards.where(starts_with(Address.ip, words.lower()))))
    under = Instance.name + " · " + Account.email
    query = select(Instance.id, Instance.display_name, under).join(Account, Account.id == Instance.account_id)
    return query.where(or_(*found)).order_by(Instance.id.desc())


def select_customers(words):
    names = (Account.email, Account.first_name, Account.last_name, Account.company_name)
    found = [contains_text(column, words) for column in names] + [Account.id == words.lower()]
    return select(Account.id, Account.email, Account.company_name).where(or_(*found)).order_by(Account.id.desc())


def select_hypervisors(words):
    found = or_(contains_text(Hypervisor.name, words), Hypervisor.id == words.lower())
    return select(Hypervisor.id, Hypervisor.name, Hypervisor.status).where(found).order_by(Hypervisor.name)


def select_tasks(words):
    """By the id or its beginning."""
    if not is_id(words):
        return None
    query = select(Task.id, Task.kind, Task.resource_name).where(starts_with(Task.id, words.lower()))
    return query.order_by(Task.id.desc())


def select_subnets(words):
    found = or_(contains_text(Subnet.name, words), starts_with(Subnet.cidr, words.lower()), covers_address(words))
    return select(Subnet.id, Subnet.name, Subnet.cidr).where(found).order_by(Subnet.name)


def select_addresses(words):
    """The subnet's id, the address, and the instance that has it."""
    if not ADDRESS_PATTERN.fullmatch(words):
        return None
    query = select(Address.subnet_id, Address.ip, Instance.display_name).where(starts_with(Address.ip, words.lower()))
    query = query.outerjoin(Interface, Interface.id == Address.interface_id)
    return query.outerjoin(Instance, Instance.id == Interface.instance_id).order_by(Address.ip)


def select_images(words):
    found = or_(contains_text(Image.label, words), contains_text(Image.name, words), Image.id == words.lower())
    return select(Image.id, Image.label, Image.name).where(found).order_by(Image.label)


def select_plans(words):
    query = select(Plan.id, Plan.name, PlanGroup.display_name).join(PlanGroup, PlanGroup.id == Plan.plan_group_id)
    return query.where(or_(contains_text(Plan.name, words), Plan.id == words.lower())).order_by(Plan.name)


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


def starts_with(column, words):
    return column.startswith(words, autoescape=True)


def contains_text(column, words):
    return column.icontains(words, autoescape=True)


def is_id(words):
    return ID_PATTERN.fullmatch(words) is not None


def covers_address(words):
    """The subnets that the address lies in, as a condition on their written networks."""
    try:
        address = ipaddress.ip_address(words)
    except ValueError:
        return Subnet.id.is_(None)
    networks = (ipaddress.ip_network((address, length), strict=False) for length in range(address.max_prefixlen + 1))
    return Subnet.cidr.in_([str(network) for network in networks])
