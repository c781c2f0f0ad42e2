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
from panel.schemas.constants import INSTANCE_STATES

TERM_PATTERN = re.compile(r'(?P<minus>-?)(?:(?P<key>[A-Za-z_]+):(?!:))?(?:"(?P<quoted>[^"]*)"?|(?P<plain>\S*))')
ADDRESS_PATTERN = re.compile(r"-?[0-9A-Fa-f]*(:[0-9A-Fa-f]*){2,}\Z")
"""An IPv6 or hardware address, or a part of one: its colons do not follow a key."""

NAME_COLUMNS = (Instance.display_name, Instance.hostname, Instance.name)


@dataclass(frozen=True)
class Term:
    key: str
    """Empty for a word without one."""
    value: str
    negated: bool = False


def parse(text):
    """The terms of a search, in their order."""
    terms = []
    for word in split_words(text):
        if ADDRESS_PATTERN.match(word):
            terms.append(Term("", word.removeprefix("-"), word.startswith("-")))
            continue
        found = TERM_PATTERN.match(word)
        value = found["plain"] if found["quoted"] is None else found["quoted"]
        if value:
            terms.append(Term((found["key"] or "").lower(), value, bool(found["minus"])))
    return terms


def split_words(text):
    """Words, where quotes keep spaces together; a quote that is not closed reaches to the end."""
    return [word.group() for word in re.finditer(r'(?:[^\s"]|"[^"]*"?)+', text)]


def contains_text(column, value):
    return column.icontains(value, autoescape=True)


def address_condition(value):
    begins = Address.ip.startswith(value, autoescape=True)
    return Instance.interfaces.any(Interface.addresses.any(begins) | Interface.prefixes.any(begins))


def state_condition(value):
    meant = [word for word in INSTANCE_STATES if word.startswith(value.lower())]
    if not meant:
        raise invalid_search(f"There is no state {value}. There are: {', '.join(INSTANCE_STATES)}.")
    return or_(*(Instance.state == word for word in meant))


def tag_condition(value):
    return cast(Instance.tags, String).contains(f'"{value.lower()}"', autoescape=True)


def relation_condition(relation, *columns):
    return lambda value: relation.has(or_(*(contains_text(column, value) for column in columns)))


def project_condition(value):
    named = Project.__table__.select().with_only_columns(Project.id).where(contains_text(Project.name, value))
    return and_(Instance.project_id.is_not(None), Instance.project_id.in_(named))


SEARCH_KEYS = {
    "": lambda value: or_(address_condition(value), *(contains_text(column, value) for column in NAME_COLUMNS)),
    "name": lambda value: or_(*(contains_text(column, value) for column in NAME_COLUMNS)),
    "state": state_condition,
    "tag": tag_condition,
    "ip": address_condition,
    "location": relation_condition(Instance.group, HypervisorGroup.display_name, HypervisorGroup.name),
    "plan": relation_condition(Instance.plan, Plan.name),
    "image": relation_condition(Instance.image, Image.label, Image.name),
    "project": project_condition,
}
OPERATOR_SEARCH_KEYS = {
    "owner": relation_condition(Instance.account, Account.email),
    "node": relation_condition(Instance.hypervisor, Hypervisor.name),
}
"""What only operators may ask for."""


def build_conditions(text, *, by_operator=False):
    """What the search asks for, as conditions of SQL. An unknown key is refused, with those that there are."""
    known = SEARCH_KEYS | OPERATOR_SEARCH_KEYS if by_operator else SEARCH_KEYS
    for term in parse(text):
        if term.key not in known:
            keys = ", ".join(key for key in known if key)
            raise invalid_search(f"There is no key {term.key}. There are: {keys}. Put a word with a colon into quotes.")
        condition = known[term.key](term.value)
        yield ~condition if term.negated else condition


def invalid_search(sentence):
    return Invalid(sentence, search=sentence)
