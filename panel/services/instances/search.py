"""The language of the search field of instance lists.

    web                 in a name or host name, or the start of an address or id
    name:web            in a name or host name                state:running     its state (also its beginning)
    tag:prod            has that tag                          ip:10.0.          an address that begins so
    location:lab        in the location's name                plan:S            in the plan's name
    image:debian        in the image's name                   project:"big one" in the project's name
    owner:ada           in the owner's email address          node:node-1       in the hypervisor's name (operators)

All terms must match. A minus negates a term (`-tag:prod`), quotes keep spaces together. A key without a value is
ignored, so that a list can be filtered while one types.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, String, and_, cast, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Account, Address, Hypervisor, HypervisorGroup, Image, Instance, Interface, Plan, Project
from panel.schemas.constants import INSTANCE_STATES
from panel.services.search_kinds import (
    HasPrefix,
    contains_text,
    id_starts_with,
    is_id,
    is_only_address,
    platform_search,
)

TERM_PATTERN = re.compile(r'(?P<minus>-?)(?:(?P<key>[A-Za-z_]+):(?!:))?(?:"(?P<quoted>[^"]*)"?|(?P<plain>\S*))')
ADDRESS_PATTERN = re.compile(r"-?[0-9A-Fa-f]*(:[0-9A-Fa-f]*){2,}\Z")
"""An IPv6 or MAC address, or a part of one: its colons do not follow a key."""
NUMBER_PATTERN = re.compile(r"h[0-9]{8}", re.IGNORECASE)
"""An instance's number, such as h25316154."""
ID_LENGTH = 36
ADDRESS_BEGINNING_PATTERN = re.compile(r"[0-9a-f.:/]+", re.IGNORECASE)
"""What an IP address or a network can begin with."""

NAME_COLUMNS = (Instance.display_name, Instance.hostname, Instance.name)


@dataclass(frozen=True)
class Term:
    key: str
    """Empty for a term without a key."""
    value: str
    negated: bool = False


def parse(text: str) -> list[Term]:
    """Return the terms of a search, in their order."""
    terms = []
    for word in split_words(text):
        if ADDRESS_PATTERN.match(word):
            terms.append(Term("", word.removeprefix("-"), word.startswith("-")))
        elif match := TERM_PATTERN.match(word):
            value = match["plain"] if match["quoted"] is None else match["quoted"]
            if value:
                terms.append(Term((match["key"] or "").lower(), value, bool(match["minus"])))
    return terms


def split_words(text: str) -> list[str]:
    """Return the words. Quotes keep spaces together; an unclosed quote reaches to the end."""
    return [word.group() for word in re.finditer(r'(?:[^\s"]|"[^"]*"?)+', text)]


def address_condition(value: str) -> ColumnElement[bool]:
    holders = select(Interface.instance_id).join(Address, Address.interface_id == Interface.id)
    return Instance.id.in_(holders.where(HasPrefix(Address.ip, value.lower())))


def iter_word_conditions(value: str) -> Iterator[ColumnElement[bool]]:
    yield from (contains_text(column, value) for column in NAME_COLUMNS)
    if is_id(value):
        yield id_starts_with(Instance.id, value)
    if ADDRESS_BEGINNING_PATTERN.fullmatch(value):
        yield address_condition(value)


def state_condition(value: str) -> ColumnElement[bool]:
    states = [state for state in INSTANCE_STATES if state.startswith(value.lower())]
    if not states:
        raise build_search_error(
            message(
                "There is no state {value}. There are: {states}.",
                value=value,
                states=", ".join(INSTANCE_STATES),
            )
        )
    return or_(*(Instance.state == state for state in states))


def tag_condition(value: str) -> ColumnElement[bool]:
    return cast(Instance.tags, String).contains(f'"{value.lower()}"', autoescape=True)


def relation_condition(
    relation: InstrumentedAttribute[Any], *columns: InstrumentedAttribute[str]
) -> Callable[[str], ColumnElement[bool]]:
    return lambda value: relation.has(or_(*(contains_text(column, value) for column in columns)))


def project_condition(value: str) -> ColumnElement[bool]:
    project_ids = Project.__table__.select().with_only_columns(Project.id).where(contains_text(Project.name, value))
    return and_(Instance.project_id.is_not(None), Instance.project_id.in_(project_ids))


SEARCH_KEYS = {
    "": lambda value: or_(*iter_word_conditions(value)),
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
"""Keys for operators only."""


def build_conditions(text: str, *, by_operator: bool = False) -> Iterator[ColumnElement[bool]]:
    """Yield the SQL conditions of the search. Raise Invalid for an unknown key, naming the known ones."""
    search_keys = SEARCH_KEYS | OPERATOR_SEARCH_KEYS if by_operator else SEARCH_KEYS
    for term in parse(text):
        if term.key not in search_keys:
            keys = ", ".join(key for key in search_keys if key)
            raise build_search_error(
                message(
                    "There is no key {key}. There are: {keys}. Put a word with a colon into quotes.",
                    key=term.key,
                    keys=keys,
                )
            )
        condition = search_keys[term.key](term.value)
        yield ~condition if term.negated else condition


def build_search_error(sentence: str) -> Invalid:
    return Invalid(sentence, search=sentence)


@platform_search("instance", permission="admin:instances:read", position=10)
def select_by_any_name(text: str) -> Select[str, str, str]:
    """Select by name, host name, id, number, owner or the beginning of an address. A text that is the beginning of an
    address, a number or a whole id is looked up in an index alone."""
    subtitle = Instance.name + " · " + Account.email
    query = select(Instance.id, Instance.display_name, subtitle.label("detail")).join(
        Account, Account.id == Instance.account_id
    )
    return query.where(match_any_name(text)).order_by(Instance.id.desc())


def match_any_name(text: str) -> ColumnElement[bool]:
    if is_only_address(text):
        holders = select(Interface.instance_id).join(Address, Address.interface_id == Interface.id)
        return Instance.id.in_(holders.where(HasPrefix(Address.ip, text.lower())))
    if len(text) == ID_LENGTH and is_id(text):
        return Instance.id == text.lower()
    if NUMBER_PATTERN.fullmatch(text):
        return Instance.name == text.lower()
    names = (Instance.display_name, Instance.hostname, Account.email)
    conditions = [contains_text(column, text) for column in names]
    if is_id(text):
        conditions.append(id_starts_with(Instance.id, text))
    return or_(HasPrefix(Instance.name, text.lower()), *conditions)
