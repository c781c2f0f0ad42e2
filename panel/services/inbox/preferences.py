"""Where a person wants messages of each kind."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import InboxPreference
from panel.services.access import Access
from panel.services.inbox.kinds import KINDS

Choice = tuple[bool, bool]
"""Whether a person wants messages in the inbox, and by mail."""


def get_default(kind: str, *, is_owner: bool) -> Choice:
    return True, KINDS[kind].mail and (is_owner or KINDS[kind].is_fixed)


def map_choices(account_ids: Collection[str]) -> dict[tuple[str, str], Choice]:
    """Return the choices of these people, by person and kind. Kinds without one have the default."""
    columns = InboxPreference.account_id, InboxPreference.kind, InboxPreference.inbox, InboxPreference.mail
    rows = session.execute(select(*columns).where(InboxPreference.account_id.in_(account_ids)))
    return {(row.account_id, row.kind): (row.inbox, row.mail) for row in rows if row.kind in KINDS}


@dataclass(frozen=True)
class Preference:
    """A kind with the person's choice, or with the default."""

    kind: str
    label: str
    description: str
    inbox: bool
    mail: bool
    fixed: bool


def list_preferences(access: Access) -> list[Preference]:
    """Return the person's choice for every kind that it can get messages of."""
    choices = map_choices([access.person_id])
    preferences = []
    for kind in list_kinds(access):
        choice = choices.get((access.person_id, kind)) or get_default(kind, is_owner=access.member_id is None)
        facts = KINDS[kind]
        preferences.append(Preference(kind, facts.label, facts.description, *choice, facts.is_fixed))
    return preferences


def list_kinds(access: Access) -> Iterable[str]:
    """Return the kinds that the person can get messages of. Everybody can be invited to a team."""
    return [
        kind
        for kind, facts in KINDS.items()
        if facts.permission is None or kind == "team" or access.has_permission(facts.permission)
    ]


def update_preferences(access: Access, changes: Sequence[dict[str, Any]]) -> list[Preference]:
    """Store the person's choices of some kinds. Return all."""
    current = {preference.kind: preference for preference in list_preferences(access)}
    for change in changes:
        kind = change["kind"]
        if kind not in current:
            sentence = message("There is no such kind: {kind}.", kind=kind)
            raise Invalid(sentence, preferences=sentence)
        preference = current[kind] = replace(current[kind], **change)
        if not preference.fixed:
            choice = {"inbox": preference.inbox, "mail": preference.mail}
            session.merge(InboxPreference(account_id=access.person_id, kind=kind, **choice))
        elif not (preference.inbox and preference.mail):
            sentence = message("Messages about security cannot be turned off.")
            raise Invalid(sentence, preferences=sentence)
    session.flush()
    return list(current.values())
