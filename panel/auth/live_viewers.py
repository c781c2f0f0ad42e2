"""Who looks at open pages, and which changes (panel/core/live_changes.py) their streams may contain."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sqlalchemy import exists, select

from panel.auth import permissions
from panel.auth.browser_session import is_impersonation_allowed
from panel.core import clock
from panel.core.db import Model, session
from panel.core.live_changes import Change
from panel.models import Account, LoginSession, Passkey
from panel.services import settings
from panel.services.access import ACCESS_COLUMNS, REACH_RESTRICTIONS, Access, join_membership

LIVE_MODELS = {
    mapper.class_.__tablename__: mapper.class_
    for mapper in Model.registry.mappers
    if mapper.class_.live_permissions is not None
}
"""By table: the models whose changes are published."""


@dataclass(frozen=True)
class LiveViewer:
    access: Access
    operator_permissions: frozenset[str] = frozenset()
    """Empty also for suspended operators and during an impersonation."""

    @property
    def is_restricted(self) -> bool:
        """Return whether it sees only chosen resources, which have to be looked up."""
        return self.access.reach != "all"

    def list_visible(self, changes: Iterable[Change]) -> list[Change]:
        """Return the changes of rows that it may see. Queries the database only for a restricted member."""
        changes = [change for change in changes if change.table in LIVE_MODELS]
        visible = {change for change in changes if self.may_see_as_operator(change)}
        own = [change for change in changes if change not in visible and self.has_own_permission(change)]
        visible.update(self.list_chosen(own) if self.is_restricted else own)
        return [change for change in changes if change in visible]

    def may_see_as_operator(self, change: Change) -> bool:
        permission = LIVE_MODELS[change.table].live_permissions[1]
        return permission is not None and permission in self.operator_permissions

    def has_own_permission(self, change: Change) -> bool:
        if LIVE_MODELS[change.table].is_personal:
            return change.account_id == self.access.person_id
        permission = LIVE_MODELS[change.table].live_permissions[0]
        is_own = change.account_id is not None and change.account_id == self.access.id
        return is_own and permission is not None and self.access.has_permission(permission)

    def list_chosen(self, changes: list[Change]) -> list[Change]:
        """Return the changes of rows that the member's restriction to chosen resources lets it see."""
        ids: set[str] = set()
        restricted_tables = {change.table for change in changes if LIVE_MODELS[change.table] in REACH_RESTRICTIONS}
        for table in restricted_tables:
            model, changed_ids = LIVE_MODELS[table], [change.id for change in changes if change.table == table]
            is_chosen = model.id.in_(changed_ids) & self.access.visible_rows(model)
            ids.update(session.scalars(select(model.id).where(is_chosen)))
        return [change for change in changes if change.id in ids or change.table not in restricted_tables]


def load_viewers(session_ids: Collection[str]) -> dict[str, LiveViewer]:
    """Return the viewer of each browser session that goes on, with a constant number of queries."""
    running = LoginSession.id.in_(session_ids) & (LoginSession.expires_at > clock.now())
    rows = [row for row in session.scalars(select(LoginSession).where(running)) if is_impersonation_allowed(row)]
    people = {row.account_id for row in rows}
    query = join_membership(select(*ACCESS_COLUMNS)).where(Account.id.in_(people))
    accesses = {row.person_id: Access.from_row(row) for row in session.execute(query)}
    incomplete = find_people_without_second_factor(people)
    return {
        row.id: LiveViewer(accesses[row.account_id], permissions.get_operator_permissions(find_operator_role(row)))
        for row in rows
        if row.impersonator_id or row.account_id not in incomplete
    }


def find_operator_role(row: LoginSession) -> str | None:
    return None if row.impersonator_id or row.account.suspended_at else row.account.operator_role


def find_people_without_second_factor(people: Collection[str]) -> set[str]:
    """Return those who must set up a second factor before they may see anything."""
    required_for = settings.get().require_second_factor
    if required_for == "nobody":
        return set()
    has_passkey = exists().where(Passkey.account_id == Account.id)
    query = select(Account).where(Account.id.in_(people), Account.two_factor_at.is_(None), ~has_passkey)
    return {account.id for account in session.scalars(query) if account.is_admin or required_for != "operators"}
