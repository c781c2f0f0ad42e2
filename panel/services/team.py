"""Teams: roles, and the members who have them.

Nobody grants more than they have. A member who manages the team may grant their own permissions and resources or fewer,
and cannot change members who have more.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Select, delete, or_, select
from sqlalchemy.orm import joinedload, selectinload, undefer

from panel.core.db import lock_row, session
from panel.core.errors import Conflict, Forbidden, Invalid, NotFound
from panel.core.messages import message
from panel.models import (
    Account,
    Instance,
    LoginSession,
    Member,
    Microvm,
    MicrovmImage,
    Project,
    ResourceGrant,
    Role,
    Token,
    Volume,
)
from panel.services import accounts
from panel.services.access import Access
from panel.services.crud import ensure_unique_name, update_fields
from panel.services.search_kinds import customer_search

NOT_HELD_MESSAGE = message("You can only grant permissions that you have yourself. Your own role lacks {permissions}.")
GRANTABLE_SCOPES = {"all": ("all", "projects", "chosen"), "projects": ("projects", "chosen"), "chosen": ("chosen",)}
"""By somebody's own reach, what they may grant.

`chosen` cannot grant projects, because a project may contain more than was chosen for them.
"""
RESOURCE_MODELS = (Instance, Microvm, MicrovmImage, Volume)
"""What can be granted one by one. Members also get what they create."""
OUT_OF_REACH_MESSAGE = message("You can only grant access to what you can access yourself.")
HIGHER_MEMBER_MESSAGE = message("This person has more rights than you. Ask the account's owner.")


def select_roles(access: Access) -> Select[Role]:
    """Select the roles by name, each with the number of its members."""
    return select(Role).options(undefer(Role.members)).where(Role.account_id == access.id).order_by(Role.name, Role.id)


def get_role(role_id: str, access: Access, error_field: str | None = None) -> Role:
    role = session.scalar(select_roles(access).where(Role.id == role_id))
    if role is None and error_field:
        raise Invalid(message("No such role."), **{error_field: message("No such role.")})
    if role is None:
        raise NotFound(message("No such role."))
    return role


def create_role(access: Access, *, name: str, permissions: Collection[str], description: str | None = None) -> Role:
    permissions = with_implied_views(permissions)
    ensure_within_own_rights(access, permissions)
    ensure_unique_name(Role, name, account_id=access.id)
    role = Role(account_id=access.id, name=name, description=description, permissions=permissions)
    session.add(role)
    session.flush()
    return role


def get_or_create_role(
    access: Access, *, name: str, permissions: Collection[str], description: str | None = None
) -> Role:
    """Return the role with this name; create it if the team has none. The lock on the account serializes requests."""
    lock_row(Account, access.id)
    role = session.scalar(select_roles(access).where(Role.name == name))
    return role or create_role(access, name=name, permissions=permissions, description=description)


def with_implied_views(permissions: Collection[str]) -> list[str]:
    """Return the permissions with those to view the same resources, without which they are useless."""
    families = {name.partition(".")[0] for name in permissions}
    views = {f"{VIEW_FAMILY.get(family, family)}.view" for family in families if family not in FAMILIES_WITHOUT_VIEW}
    return sorted({*permissions, *views})


VIEW_FAMILY = {"team": "account"}
FAMILIES_WITHOUT_VIEW = ("api_tokens",)
"""People see their own tokens without a permission."""


def update_role(access: Access, role: Role, **changes: Any) -> Role:
    """Change a role. It applies to all who have it from the next request on."""
    ensure_within_own_rights(
        access, role.permissions, message("You cannot change a role that permits more than your own.")
    )
    if access.member_id and role.id == find_own_role_id(access):
        raise Forbidden(message("You cannot change your own role. Ask the account's owner."))
    if access.reach != "all" and any(
        is_beyond_reach(access, member) for member in session.scalars(select_members_with(role))
    ):
        raise Forbidden(message("A member with more access than you has this role. Ask the account's owner."))
    if "permissions" in changes:
        changes["permissions"] = with_implied_views(changes["permissions"])
        ensure_within_own_rights(access, changes["permissions"])
    if "name" in changes:
        ensure_unique_name(Role, changes["name"], exclude=role, account_id=access.id)
    return update_fields(role, changes)


def delete_role(access: Access, role: Role) -> None:
    ensure_within_own_rights(
        access, role.permissions, message("You cannot remove a role that permits more than your own.")
    )
    if session.scalar(select(Member.id).where(Member.role_id == role.id).limit(1)):
        raise Conflict(message("This role is in use. Give its members another role first."), reason="role_in_use")
    session.delete(role)
    session.flush()


def select_members_with(role: Role) -> Select[Member]:
    return select(Member).options(selectinload(Member.grants)).where(Member.role_id == role.id)


def find_own_role_id(access: Access) -> str | None:
    return session.scalar(select(Member.role_id).where(Member.id == access.member_id))


def ensure_within_own_rights(access: Access, permissions: Collection[str], sentence: str | None = None) -> None:
    """Raise Forbidden if the person lacks some of these permissions."""
    missing = sorted(name for name in permissions if not access.has_permission(name))
    if missing:
        raise Forbidden(sentence or NOT_HELD_MESSAGE.format(permissions=", ".join(missing)))


@customer_search(
    "member",
    "members of the team",
    permission="account.view",
    position=40,
    describe=lambda member: (member.email, member.role.name),
)
def listing(access: Access, *, search: str | None = None) -> Select[Member]:
    """Select the members, including invited ones, in the order of their creation."""
    load_options = (joinedload(Member.role), joinedload(Member.account), selectinload(Member.grants))
    query = select(Member).options(*load_options).where(Member.owner_id == access.id).order_by(Member.id)
    return query.where(Member.email.icontains(search, autoescape=True)) if search else query


def get(member_id: str, access: Access) -> Member:
    member = session.scalar(listing(access).where(Member.id == member_id))
    if member is None:
        raise NotFound(message("No such member."))
    return member


def get_membership(account: Account, member_id: str) -> Member:
    """Return the membership that the account has, or that somebody has in the account's team."""
    own = or_(Member.owner_id == account.id, Member.account_id == account.id)
    member = session.scalar(select(Member).where(Member.id == member_id, own))
    if member is None:
        raise NotFound(message("No such membership."))
    return member


def get_changeable(member_id: str, access: Access) -> Member:
    """Return the member if the person may change them.

    Raise Forbidden for the person's own membership and for members with more permissions or reach.
    """
    member = get(member_id, access)
    if member.id == access.member_id:
        raise Forbidden(message("You cannot change your own membership. Ask the account's owner."))
    if not all(access.has_permission(name) for name in member.role.permissions) or is_beyond_reach(access, member):
        raise Forbidden(HIGHER_MEMBER_MESSAGE)
    return member


def is_beyond_reach(access: Access, member: Member) -> bool:
    """Return whether the member reaches an existing resource that the person does not reach."""
    if access.reach == "all":
        return False
    if member.reach not in GRANTABLE_SCOPES[access.reach]:
        return True
    granted = [grant.resource_id for grant in member.grants]
    return any(
        session.scalar(select(model.id).where(model.id.in_(granted), ~access.visible_rows(model)).limit(1))
        for model in (*RESOURCE_MODELS, Project)
    )


def update(
    access: Access,
    member: Member,
    *,
    role_id: str | None = None,
    reach: str | None = None,
    project_ids: Collection[str] = (),
    resource_ids: Collection[str] = (),
) -> Member:
    """Set a new role or reach. It applies from the next request on."""
    if role_id:
        member.role = get_grantable_role(access, role_id)
    if reach:
        set_reach(access, member, reach, project_ids, resource_ids)
    session.flush()
    return member


def get_grantable_role(access: Access, role_id: str) -> Role:
    """Return a role that the person may give to somebody."""
    role = get_role(role_id, access, "role_id")
    ensure_within_own_rights(access, role.permissions)
    return role


def set_reach(
    access: Access, member: Member, reach: str, project_ids: Collection[str] = (), resource_ids: Collection[str] = ()
) -> None:
    """Set what the member reaches, which must be within the person's own reach."""
    if reach not in GRANTABLE_SCOPES[access.reach]:
        raise Invalid(OUT_OF_REACH_MESSAGE, reach=OUT_OF_REACH_MESSAGE)
    grants = []
    if reach != "all":
        no_resource = message("One of the resources does not exist."), message("No such resource.")
        grants = make_grants(access, RESOURCE_MODELS, resource_ids, "resource_ids", no_resource)
    if reach == "projects":
        no_project = message("One of the projects does not exist."), message("No such project.")
        grants += make_grants(access, (Project,), project_ids, "project_ids", no_project)
    member.grants, member.reach = grants, reach


def select_grantable(access: Access, model: Any) -> Select[Any]:
    """Select the rows of a kind that the person may grant."""
    query = select(model).where(access.visible_rows(model))
    return query.where(Microvm.ended_at.is_(None)) if model is Microvm else query


def make_grants(
    access: Access, models: Collection[Any], ids: Collection[str], error_field: str, errors: tuple[str, str]
) -> list[ResourceGrant]:
    """Return a grant for each of the rows, all of which the person must reach. `errors`: the sentences for the answer
    and for the field."""
    grants = [
        ResourceGrant(resource_id=row_id, resource_type=model.__tablename__.removesuffix("s"))
        for model in models
        for row_id in session.scalars(
            select_grantable(access, model).with_only_columns(model.id).where(model.id.in_(set(ids)))
        )
    ]
    if len(grants) < len(set(ids)):
        raise Invalid(errors[0], **{error_field: errors[1]})
    return grants


def remove(member: Member) -> None:
    """End the membership and delete the person's sessions and tokens.

    An account that the invitation created is deleted too, unless it owns resources or has an external id. What the
    member created belongs to the owner.
    """
    person = member.account
    session.delete(member)
    session.flush()
    if person is None:
        return
    session.execute(delete(LoginSession).where(LoginSession.account_id == person.id))
    session.execute(delete(Token).where(or_(Token.account_id == person.id, Token.created_by_id == person.id)))
    created_by_invitation = person.created_at >= member.created_at and not person.is_admin and not person.external_id
    if created_by_invitation and not accounts.describe_owned_resources(person):
        session.delete(person)
        session.flush()
