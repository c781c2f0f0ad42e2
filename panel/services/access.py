"""Somebody who was let in: whose resources these are, which of them, and what may be done with them.

Services take an `Access` wherever a customer asks; an `Account` does as well, and means all of its own resources. Both
have `id`, the owner's, and `owns(Model)`, the rows that may be touched.
"""

from dataclasses import dataclass

from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import aliased

from panel.core.db import session
from panel.models import Account, Event, Instance, Member, Project, ResourceGrant, Role, Task, Volume

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
"""What `Access.of` needs to know of a person, to be selected along with the token or the session."""


def join_membership(query):
    """The select with the person's membership beside the account. A team is suspended with its owner."""
    query = query.outerjoin(Member, Member.account_id == Account.id)
    return query.outerjoin(Owner, Owner.id == Member.owner_id).outerjoin(Role, Role.id == Member.role_id)


@dataclass(frozen=True)
class Access:
    id: str
    """The account whose resources these are: for a member of a team its owner."""
    person_id: str
    email: str
    """Who acts."""
    suspended: bool = False
    unbilled: bool = False
    member_id: str | None = None
    reach: str = "all"
    permissions: frozenset[str] | None = None
    """None is everything: the owner."""
    impersonator: str | None = None
    """The operator who acts as this person, in words."""

    @classmethod
    def of(cls, row, impersonator=None):
        """From a row with `ACCESS_COLUMNS`."""
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
    def actor(self):
        """Who asked, for the history."""
        return f"{self.impersonator} as {self.email}" if self.impersonator else self.email

    def has_permission(self, permission):
        return self.permissions is None or permission in self.permissions

    def visible_rows(self, model):
        """The rows of a table that the person may touch. What belongs to no single resource is everybody's of the team
        who has the permission."""
        own = model.account_id == self.id
        narrow = None if self.reach == "all" else REACH_RESTRICTIONS.get(model)
        return and_(own, narrow(self)) if narrow else own

    def granted(self):
        return select(ResourceGrant.resource_id).where(ResourceGrant.member_id == self.member_id)

    def grant_on_create(self, resource):
        """A member whose resources are chosen one by one keeps in sight what the member makes."""
        if self.reach != "all":
            session.add(
                ResourceGrant(
                    member_id=self.member_id, resource_id=resource.id, resource_type=resource.__tablename__[:-1]
                )
            )


def restrict_instances(access):
    chosen = Instance.id.in_(access.granted())
    return or_(chosen, Instance.project_id.in_(access.granted())) if access.reach == "projects" else chosen


def restrict_volumes(access):
    chosen = Volume.id.in_(access.granted())
    return or_(chosen, Volume.project_id.in_(access.granted())) if access.reach == "projects" else chosen


def restrict_history(model):
    """Of rows that tell of a resource: those of the resources in reach, also when they are gone by now."""
    return lambda access: or_(
        model.resource_id.in_(access.granted()),
        model.resource_id.in_(select(Instance.id).where(access.visible_rows(Instance))),
    )


def restrict_projects(access):
    return Project.id.in_(access.granted())


REACH_RESTRICTIONS = {
    Instance: restrict_instances,
    Volume: restrict_volumes,
    Project: restrict_projects,
    Task: restrict_history(Task),
    Event: restrict_history(Event),
}
"""How far a member with chosen resources or projects sees, for each kind of resource that can be chosen."""


def get_for_account(account, impersonator=None):
    """The access that a person has by signing in; `impersonator` is the operator who signed in as this person."""
    row = session.execute(join_membership(select(*ACCESS_COLUMNS)).where(Account.id == account.id)).one()
    return Access.of(row, impersonator and impersonator.email)
