"""Access: whose resources a person may touch, which of them, and with which permissions.

Services take an `Access` as the customer. An `Account` works as well and means all of its own resources. Both have
`id`, the owner's, and `visible_rows(Model)`, the condition for the rows that may be touched.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.orm import aliased

from panel.core.db import Columns, session
from panel.models import (
    Account,
    AlertRule,
    Event,
    Instance,
    InstanceBackup,
    Member,
    Microvm,
    MicrovmConnector,
    MicrovmImage,
    Project,
    ResourceGrant,
    Role,
    Task,
    Volume,
)

Owner = aliased(Account)
ACCESS_COLUMNS = (
    Account.id.label("person_id"),
    Account.email,
    func.coalesce(Account.suspended_at, Owner.suspended_at).label("suspended_at"),
    func.coalesce(Owner.self_provisioning, Account.self_provisioning).label("unbilled"),
    Member.id.label("member_id"),
    Member.owner_id,
    Member.reach,
    Role.permissions,
)
"""Columns that `Access.from_row` needs, to be selected along with the token or the session."""


def join_membership(query: Select[*Columns]) -> Select[*Columns]:
    """Add the person's team membership to a select of accounts. A member is suspended with the team's owner."""
    query = query.outerjoin(Member, Member.account_id == Account.id)
    return query.outerjoin(Owner, Owner.id == Member.owner_id).outerjoin(Role, Role.id == Member.role_id)


@dataclass(frozen=True)
class Access:
    id: str
    """The account that owns the resources: for a team member the team's owner."""
    person_id: str
    email: str
    """The acting person."""
    suspended: bool = False
    unbilled: bool = False
    member_id: str | None = None
    reach: str = "all"
    permissions: frozenset[str] | None = None
    """None is everything: the owner."""
    impersonator: str | None = None
    """Email address of the operator who acts as this person."""

    @classmethod
    def from_row(cls, row: Any, impersonator: str | None = None) -> Self:
        """Make an access from a row with `ACCESS_COLUMNS`."""
        return cls(
            id=row.owner_id or row.person_id,
            person_id=row.person_id,
            email=row.email,
            suspended=row.suspended_at is not None,
            unbilled=bool(row.unbilled),
            member_id=row.member_id,
            reach=row.reach or "all",
            permissions=None if row.member_id is None else frozenset(row.permissions),
            impersonator=impersonator,
        )

    @property
    def actor(self) -> str:
        """The acting person, for history and events."""
        return f"{self.impersonator} as {self.email}" if self.impersonator else self.email

    def has_permission(self, permission: str) -> bool:
        return self.permissions is None or permission in self.permissions

    def visible_rows(self, model: Any) -> ColumnElement[bool]:
        """Return the condition for the rows of a table that the person may touch. Rows that belong to no single
        resource are visible to every member with the permission."""
        own = model.account_id == self.id
        restrict = None if self.reach == "all" else REACH_RESTRICTIONS.get(model)
        return and_(own, restrict(self)) if restrict else own

    def select_granted_ids(self) -> Select[str]:
        return select(ResourceGrant.resource_id).where(ResourceGrant.member_id == self.member_id)

    def grant_on_create(self, resource: Any) -> None:
        """Grant the creator access to the new resource. Nothing happens for those who see all resources."""
        if self.reach != "all":
            session.add(
                ResourceGrant(
                    member_id=self.member_id, resource_id=resource.id, resource_type=resource.__tablename__[:-1]
                )
            )


def restrict_instances(access: Access) -> ColumnElement[bool]:
    is_granted = Instance.id.in_(access.select_granted_ids())
    return (
        or_(is_granted, Instance.project_id.in_(access.select_granted_ids()))
        if access.reach == "projects"
        else is_granted
    )


def restrict_volumes(access: Access) -> ColumnElement[bool]:
    is_granted = Volume.id.in_(access.select_granted_ids())
    return (
        or_(is_granted, Volume.project_id.in_(access.select_granted_ids()))
        if access.reach == "projects"
        else is_granted
    )


def restrict_history(model: Any) -> Callable[[Access], ColumnElement[bool]]:
    """Return the condition for rows about a resource, such as tasks: the resource is or was visible to the member."""
    return lambda access: or_(
        model.resource_id.in_(access.select_granted_ids()),
        model.resource_id.in_(select(Instance.id).where(access.visible_rows(Instance))),
    )


def restrict_microvms(access: Access) -> ColumnElement[bool]:
    """Micro VMs are in no project, so a member sees those that were chosen and those that it created."""
    return Microvm.id.in_(access.select_granted_ids())


def restrict_connectors(access: Access) -> ColumnElement[bool]:
    return MicrovmConnector.microvm_id.in_(access.select_granted_ids())


def restrict_microvm_images(access: Access) -> ColumnElement[bool]:
    return MicrovmImage.id.in_(access.select_granted_ids())


def restrict_instance_backups(access: Access) -> ColumnElement[bool]:
    """The instance or volume is or was visible to the member."""
    return or_(
        InstanceBackup.instance_id.in_(access.select_granted_ids()),
        InstanceBackup.instance_id.in_(select(Instance.id).where(access.visible_rows(Instance))),
        InstanceBackup.volume_id.in_(access.select_granted_ids()),
        InstanceBackup.volume_id.in_(select(Volume.id).where(access.visible_rows(Volume))),
    )


def restrict_projects(access: Access) -> ColumnElement[bool]:
    return Project.id.in_(access.select_granted_ids())


REACH_RESTRICTIONS = {
    Instance: restrict_instances,
    InstanceBackup: restrict_instance_backups,
    Volume: restrict_volumes,
    Microvm: restrict_microvms,
    MicrovmConnector: restrict_connectors,
    MicrovmImage: restrict_microvm_images,
    Project: restrict_projects,
    Task: restrict_history(Task),
    Event: restrict_history(Event),
    AlertRule: restrict_history(AlertRule),
}
"""For each kind of resource that can be chosen, the condition for a member with chosen resources or projects."""


def get_for_account(account: Account, impersonator: Account | None = None) -> Access:
    """Return the access that the person has by signing in. `impersonator` is the operator who signed in as this
    person."""
    row = session.execute(join_membership(select(*ACCESS_COLUMNS)).where(Account.id == account.id)).one()
    return Access.from_row(row, impersonator.email if impersonator else None)
