"""Finding anything on the platform, for operators: a fixed number of queries, each with a limit."""

import ipaddress
import re

from sqlalchemy import or_, select

from panel.core.db import session
from panel.models import Account, Address, Hypervisor, Image, Instance, Interface, Plan, PlanGroup, Subnet, Task

SHORTEST_ID = 8
"""How many characters of an id have to be given: the first eight are its time."""
ID = re.compile(r"[0-9a-f-]{8,36}", re.IGNORECASE)
ADDRESS = re.compile(r"[0-9a-f]*[.:][0-9a-f.:/]*", re.IGNORECASE)
PERMISSIONS = {
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


def find(words, limit, may):
    """For each kind that `may` allows and that has matches: the kind, and rows of id, label and further text."""
    for kind, permission in PERMISSIONS.items():
        query = QUERIES[kind](words) if may(permission) else None
        rows = session.execute(query.limit(limit)).all() if query is not None else []
        if rows:
            yield kind, [tuple(row) for row in rows]


def instances(words):
    """By name, host name, id, number, owner or the beginning of an address."""
    found = [begins(Instance.name, words.lower()), holds(Instance.display_name, words), holds(Instance.hostname, words)]
    found.append(holds(Account.email, words))
    if is_id(words):
        found.append(begins(Instance.id, words.lower()))
    if ADDRESS.fullmatch(words):
        cards = select(Interface.instance_id).join(Address, Address.interface_id == Interface.id)
        found.append(Instance.id.in_(cards.where(begins(Address.ip, words.lower()))))
    under = Instance.name + " · " + Account.email
    query = select(Instance.id, Instance.display_name, under).join(Account, Account.id == Instance.account_id)
    return query.where(or_(*found)).order_by(Instance.id.desc())


def customers(words):
    names = (Account.email, Account.first_name, Account.last_name, Account.company_name)
    found = [holds(column, words) for column in names] + [Account.id == words.lower()]
    return select(Account.id, Account.email, Account.company_name).where(or_(*found)).order_by(Account.id.desc())


def hypervisors(words):
    found = or_(holds(Hypervisor.name, words), Hypervisor.id == words.lower())
    return select(Hypervisor.id, Hypervisor.name, Hypervisor.status).where(found).order_by(Hypervisor.name)


def tasks(words):
    """By the id or its beginning."""
    if not is_id(words):
        return None
    query = select(Task.id, Task.kind, Task.resource_name).where(begins(Task.id, words.lower()))
    return query.order_by(Task.id.desc())


def subnets(words):
    found = or_(holds(Subnet.name, words), begins(Subnet.cidr, words.lower()), covering(words))
    return select(Subnet.id, Subnet.name, Subnet.cidr).where(found).order_by(Subnet.name)


def addresses(words):
    """The subnet's id, the address, and the instance that has it."""
    if not ADDRESS.fullmatch(words):
        return None
    query = select(Address.subnet_id, Address.ip, Instance.display_name).where(begins(Address.ip, words.lower()))
    query = query.outerjoin(Interface, Interface.id == Address.interface_id)
    return query.outerjoin(Instance, Instance.id == Interface.instance_id).order_by(Address.ip)


def images(words):
    found = or_(holds(Image.label, words), holds(Image.name, words), Image.id == words.lower())
    return select(Image.id, Image.label, Image.name).where(found).order_by(Image.label)


def plans(words):
    query = select(Plan.id, Plan.name, PlanGroup.display_name).join(PlanGroup, PlanGroup.id == Plan.plan_group_id)
    return query.where(or_(holds(Plan.name, words), Plan.id == words.lower())).order_by(Plan.name)


QUERIES = {
    "instance": instances,
    "customer": customers,
    "hypervisor": hypervisors,
    "task": tasks,
    "subnet": subnets,
    "address": addresses,
    "image": images,
    "plan": plans,
}


def begins(column, words):
    return column.startswith(words, autoescape=True)


def holds(column, words):
    return column.icontains(words, autoescape=True)


def is_id(words):
    return ID.fullmatch(words) is not None


def covering(words):
    """The subnets that the address lies in, as a condition on their written networks."""
    try:
        address = ipaddress.ip_address(words)
    except ValueError:
        return Subnet.id.is_(None)
    networks = (ipaddress.ip_network((address, length), strict=False) for length in range(address.max_prefixlen + 1))
    return Subnet.cidr.in_([str(network) for network in networks])
