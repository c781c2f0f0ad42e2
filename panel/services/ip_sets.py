"""Named lists of networks. A change is applied on every machine whose rules refer to the list.

Callers have been authorized. With an account only its own and the platform's sets are found, and only its own may be
changed.
"""

import ipaddress
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select, true
from sqlalchemy.orm import undefer_group

from panel.core.db import session
from panel.core.errors import Conflict, Forbidden, Invalid, NotFound
from panel.core.messages import join_messages, message
from panel.models import Account, IpSet, IpSetEntry, SecurityRule
from panel.services import firewall
from panel.services.access import Access
from panel.services.crud import update_fields
from panel.services.search_kinds import customer_name_search, platform_search, select_by_name

MAX_ENTRIES_PER_SET = 250
"""Entries of a set. Each becomes a rule on the nodes."""


def visible_condition(model: Any, account: Access | Account | None) -> ColumnElement[bool]:
    """Return the condition for the account's own rows and the platform's; every row for operators."""
    return or_(model.account_id == account.id, model.account_id.is_(None)) if account else true()


def listing(account: Access | Account | None = None, *, search: str | None = None) -> Select[IpSet]:
    """Select the sets by name, each with the number of its entries and of the rules that refer to it."""
    query = (
        select(IpSet)
        .options(undefer_group("counts"))
        .where(visible_condition(IpSet, account))
        .order_by(IpSet.name, IpSet.id)
    )
    return query.where(IpSet.name.icontains(search, autoescape=True)) if search else query


def get(set_id: str, account: Access | Account | None = None, *, error_field: str | None = None) -> IpSet:
    """Return the set. Raise Invalid for `field` when the id came from a body, else NotFound."""
    ip_set = session.scalar(listing(account).where(IpSet.id == set_id))
    if ip_set is None and error_field:
        raise Invalid(message("No such IP set."), **{error_field: message("No such IP set.")})
    if ip_set is None:
        raise NotFound(message("No such IP set."))
    return ip_set


def get_own(set_id: str, account: Access | Account | None = None) -> IpSet:
    """Return the set for a change. Raise Forbidden for the platform's sets, which only operators change."""
    ip_set = get(set_id, account)
    if account and ip_set.is_global:
        raise Forbidden(message("This set belongs to the platform, so it cannot be changed here."))
    return ip_set


def create(account: Access | Account | None, *, name: str, ip_version: str, description: str | None = None) -> IpSet:
    """Create an empty set; without an account it belongs to the platform."""
    ip_set = IpSet(account_id=account and account.id, name=name, ip_version=ip_version, description=description)
    session.add(ip_set)
    session.flush()
    return ip_set


def update(ip_set: IpSet, **changes: Any) -> IpSet:
    if changes.get("ip_version", ip_set.ip_version) != ip_set.ip_version and (ip_set.entries or count_rules(ip_set)):
        sentence = message("Only a set without entries, to which no rule refers, may change its version.")
        raise Invalid(sentence, ip_version=sentence)
    return update_fields(ip_set, changes)


def count_rules(ip_set: IpSet) -> int:
    query = select(func.count()).select_from(SecurityRule).where(SecurityRule.ip_set_id == ip_set.id)
    return session.scalars(query).one()


def delete(ip_set: IpSet) -> None:
    if count_rules(ip_set):
        raise Conflict(message("Rules of security groups refer to this set. Remove those rules first."))
    session.delete(ip_set)
    session.flush()


def add_entry(ip_set: IpSet, *, cidr: str, actor: str, description: str | None = None) -> IpSetEntry:
    """Add a network. A single address becomes a network of one."""
    [entry] = create_entries(ip_set, [(cidr, description)])
    firewall.apply_to_affected(ip_sets=[ip_set.id], actor=actor)
    return entry


def add_entries(ip_set: IpSet, cidrs: Iterable[str], *, actor: str) -> tuple[list[IpSetEntry], list[tuple[str, str]]]:
    """Add the valid networks. Return the new entries, and a pair of text and error for each of the others."""
    entries, errors = [], []
    for cidr in cidrs:
        try:
            entries += create_entries(ip_set, [(cidr, None)])
        except Invalid as error:
            errors.append((cidr, join_messages(error.fields["cidr"])))
    if entries:
        firewall.apply_to_affected(ip_sets=[ip_set.id], actor=actor)
    return entries, errors


def create_entries(ip_set: IpSet, networks: Iterable[tuple[str, str | None]]) -> list[IpSetEntry]:
    entries = []
    for text, description in networks:
        network = parse_network(ip_set, text)
        if any(entry.cidr == network for entry in ip_set.entries):
            raise Invalid(message("This network is already in the set."), cidr=message("It is already in the set."))
        if len(ip_set.entries) >= MAX_ENTRIES_PER_SET:
            raise Invalid(
                message("The set is full."),
                cidr=message("A set has at most {maximum} entries.", maximum=MAX_ENTRIES_PER_SET),
            )
        entries.append(IpSetEntry(cidr=network, description=description))
        ip_set.entries.append(entries[-1])
    session.flush()
    return entries


def parse_network(ip_set: IpSet, text: str) -> str:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise Invalid(
            message("This is not a network."), cidr=message("Must be a network such as 203.0.113.0/24.")
        ) from None
    if f"ipv{network.version}" != ip_set.ip_version:
        raise Invalid(
            message("The network has another IP version."),
            cidr=message("The set holds {ip_version} networks.", ip_version=ip_set.ip_version),
        )
    return str(network)


def remove_entry(ip_set: IpSet, entry_id: str, *, actor: str) -> None:
    entry = next((row for row in ip_set.entries if row.id == entry_id), None)
    if entry is None:
        raise NotFound(message("No such entry."))
    session.delete(entry)
    session.flush()
    session.expire(ip_set, ["entries"])
    firewall.apply_to_affected(ip_sets=[ip_set.id], actor=actor)


@customer_name_search("ip_set", "IP sets", permission="ip_sets.view", position=25)
def select_own_by_name(access: Access, search: str) -> Select[str, str, str | None]:
    return select_by_any_name(search).where(visible_condition(IpSet, access))


@platform_search("ip_set", permission="admin:ip_sets:read", position=64)
def select_by_any_name(text: str) -> Select[str, str, str | None]:
    return select_by_name(IpSet, IpSet.name, IpSet.description, text)
