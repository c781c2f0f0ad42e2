"""The language of the search field of instance lists.

    web                 in a name or host name, or the start of an address
    name:web            in a name or host name                state:running     its state (also its beginning)
    tag:prod            has that tag                          ip:10.0.          an address that begins so
    location:lab        in the location's name                plan:S            in the plan's name
    image:debian        in the image's name                   project:"big one" in the project's name
    owner:ada           in the owner's email address          node:node-1       in the hypervisor's name (operators)

All of it must be true. A minus turns one around (`-tag:prod`), quotes keep spaces together. What has no value yet is no
condition, so that a list can be narrowed while one types.
"""

import re
from dataclasses import dataclass

from sqlalchemy import String, and_, cast, or_

from panel.core.errors import Invalid
from panel.models import Account, Address, Hypervisor, HypervisorGroup, Image, Instance, Interface, Plan, Project
from panel.schemas.constants import STATES

TERM = re.compile(r'(?P<minus>-?)(?:(?P<key>[A-Za-z_]+):(?!:))?(?:"(?P<quoted>[^"]*)"?|(?P<plain>\S*))')
ADDRESS = re.compile(r"-?[0-9A-Fa-f]*(:[0-9A-Fa-f]*){2,}\Z")
"""An IPv6 or hardware address, or a part of one: its colons do not follow a key."""

NAMES = (Instance.display_name, Instance.hostname, Instance.name)


@dataclass(frozen=True)
class Term:
    key: str
    """Empty for a word without one."""
    value: str
    negated: bool = False


def parse(text):
    """The terms of a search, in their order."""
    terms = []
    for word in split(text):
        if ADDRESS.match(word):
            terms.append(Term("", word.removeprefix("-"), word.startswith("-")))
            continue
        found = TERM.match(word)
        value = found["plain"] if found["quoted"] is None else found["quoted"]
        if value:
            terms.append(Term((found["key"] or "").lower(), value, bool(found["minus"])))
    return terms


def split(text):
    """Words, where quotes keep spaces together; a quote that is not closed reaches to the end."""
    return [word.group() for word in re.finditer(r'(?:[^\s"]|"[^"]*"?)+', text)]


def holds(column, value):
    return column.icontains(value, autoescape=True)


def address(value):
    begins = Address.ip.startswith(value, autoescape=True)
    return Instance.interfaces.any(Interface.addresses.any(begins) | Interface.prefixes.any(begins))


def state(value):
    meant = [word for word in STATES if word.startswith(value.lower())]
    if not meant:
        raise wrong(f"There is no state {value}. There are: {', '.join(STATES)}.")
    return or_(*(Instance.state == word for word in meant))


def tag(value):
    return cast(Instance.tags, String).contains(f'"{value.lower()}"', autoescape=True)


def elsewhere(relation, *columns):
    return lambda value: relation.has(or_(*(holds(column, value) for column in columns)))


def project(value):
    named = Project.__table__.select().with_only_columns(Project.id).where(holds(Project.name, value))
    return and_(Instance.project_id.is_not(None), Instance.project_id.in_(named))


KEYS = {
    "": lambda value: or_(address(value), *(holds(column, value) for column in NAMES)),
    "name": lambda value: or_(*(holds(column, value) for column in NAMES)),
    "state": state,
    "tag": tag,
    "ip": address,
    "location": elsewhere(Instance.group, HypervisorGroup.display_name, HypervisorGroup.name),
    "plan": elsewhere(Instance.plan, Plan.name),
    "image": elsewhere(Instance.image, Image.label, Image.name),
    "project": project,
}
OPERATORS = {
    "owner": elsewhere(Instance.account, Account.email),
    "node": elsewhere(Instance.hypervisor, Hypervisor.name),
}
"""What only operators may ask for."""


def conditions(text, *, by_operator=False):
    """What the search asks for, as conditions of SQL. An unknown key is refused, with those that there are."""
    known = KEYS | OPERATORS if by_operator else KEYS
    for term in parse(text):
        if term.key not in known:
            keys = ", ".join(key for key in known if key)
            raise wrong(f"There is no key {term.key}. There are: {keys}. Put a word with a colon into quotes.")
        condition = known[term.key](term.value)
        yield ~condition if term.negated else condition


def wrong(sentence):
    return Invalid(sentence, search=sentence)
