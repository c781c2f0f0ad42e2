"""Who works on an account's resources: roles, and the members who have them.

Nobody gives what they do not hold: a member who looks after the team may hand on their own permissions and resources or
less, and does not touch who may do more.
"""

from sqlalchemy import delete, func, or_, select
from sqlalchemy.orm import joinedload, selectinload

from panel.core.db import session
from panel.core.errors import Conflict, Forbidden, Invalid, NotFound
from panel.models import Account, Instance, LoginSession, Member, Project, ResourceGrant, Role, Token
from panel.services import accounts
from panel.services.crud import ensure_unique_name, update_fields

NOT_HELD_MESSAGE = "You can only give what you may do yourself. Your own role lacks {}."
GRANTABLE_SCOPES = {"all": ("all", "projects", "chosen"), "projects": ("projects", "chosen"), "chosen": ("chosen",)}
"""What somebody with a reach may give: a project may hold more than was chosen for them one by one."""
OUT_OF_REACH_MESSAGE = "You can only give what you may reach yourself."
HIGHER_MEMBER_MESSAGE = "This person may do or reach more than you. Ask the account's owner."


def select_roles(access):
    return select(Role).where(Role.account_id == access.id).order_by(Role.name, Role.id)


def with_counts(roles):
    """Notes on each role how many `members` have it."""
    counts = select(Member.role_id, func.count()).where(Member.role_id.in_([role.id for role in roles]))
    by_role = dict(session.execute(counts.group_by(Member.role_id)).all())
    for role in roles:
        role.members = by_role.get(role.id, 0)
    return roles


def get_role(role_id, access, field=None):
    found = session.scalar(select_roles(access).where(Role.id == role_id))
    if found is None and field:
        raise Invalid("No such role.", **{field: "No such role."})
    if found is None:
        raise NotFound("No such role.")
    return found


def create_role(access, *, name, permissions, description=None):
    permissions = with_implied_views(permissions)
    ensure_within_own_rights(access, permissions)
    ensure_unique_name(Role, name, account_id=access.id)
    made = Role(account_id=access.id, name=name, description=description, permissions=permissions)
    session.add(made)
    session.flush()
    return made


def get_or_create_role(access, *, name, permissions, description=None):
    """The role with this name, created where the team has none. The lock makes a second request wait."""
    session.get(Account, access.id, with_for_update={"key_share": True}, populate_existing=True)
    found = session.scalar(select_roles(access).where(Role.name == name))
    return found or create_role(access, name=name, permissions=permissions, description=description)


def with_implied_views(permissions):
    """The permissions with what they make no sense without: who may do something with a kind of resource sees it."""
    families = {name.partition(".")[0] for name in permissions}
    seen = {f"{VIEW_FAMILY.get(family, family)}.view" for family in families if family not in FAMILIES_WITHOUT_VIEW}
    return sorted({*permissions, *seen})


VIEW_FAMILY = {"team": "account"}
FAMILIES_WITHOUT_VIEW = ("api_tokens",)
"""One's own tokens are seen without a permission."""


def update_role(access, role, **changes):
    """Counts for everybody who has the role from the next click or call on."""
    ensure_within_own_rights(access, role.permissions, "You cannot change a role that permits more than your own.")
    if access.member_id and role.id == find_own_role_id(access):
        raise Forbidden("You cannot change your own role. Ask the account's owner.")
    if access.reach != "all" and any(
        is_beyond_reach(access, member) for member in session.scalars(select_members_with(role))
    ):
        raise Forbidden("Somebody who reaches more than you has this role. Ask the account's owner.")
    if "permissions" in changes:
        changes["permissions"] = with_implied_views(changes["permissions"])
        ensure_within_own_rights(access, changes["permissions"])
    if "name" in changes:
        ensure_unique_name(Role, changes["name"], exclude=role, account_id=access.id)
    return update_fields(role, changes)


def delete_role(access, role):
    ensure_within_own_rights(access, role.permissions, "You cannot remove a role that permits more than your own.")
    if session.scalar(select(Member.id).where(Member.role_id == role.id).limit(1)):
        raise Conflict("Somebody has this role. Give them another one first.", reason="role_in_use")
    session.delete(role)
    session.flush()


def select_members_with(role):
    return select(Member).options(selectinload(Member.grants)).where(Member.role_id == role.id)


def find_own_role_id(access):
    return session.scalar(select(Member.role_id).where(Member.id == access.member_id))


def ensure_within_own_rights(access, permissions, sentence=None):
    """Raises when some of these are not the person's to give."""
    lacking = sorted(each for each in permissions if not access.has_permission(each))
    if lacking:
        raise Forbidden(sentence or NOT_HELD_MESSAGE.format(", ".join(lacking)))


def listing(access, *, search=None):
    """The members, those who are only invited among them, in the order in which they came."""
    shown = (joinedload(Member.role), joinedload(Member.account), selectinload(Member.grants))
    query = select(Member).options(*shown).where(Member.owner_id == access.id).order_by(Member.id)
    return query.where(Member.email.icontains(search, autoescape=True)) if search else query


def get(member_id, access):
    found = session.scalar(listing(access).where(Member.id == member_id))
    if found is None:
        raise NotFound("No such member.")
    return found


def get_membership(account, member_id):
    """Return the membership that the account has, or that somebody has in the account's team."""
    mine = or_(Member.owner_id == account.id, Member.account_id == account.id)
    found = session.scalar(select(Member).where(Member.id == member_id, mine))
    if found is None:
        raise NotFound("No such membership.")
    return found


def get_changeable(member_id, access):
    """The member, if whoever asks may change them: somebody else, who may do and reach no more."""
    member = get(member_id, access)
    if member.id == access.member_id:
        raise Forbidden("You cannot change your own membership. Ask the account's owner.")
    if not all(access.has_permission(each) for each in member.role.permissions) or is_beyond_reach(access, member):
        raise Forbidden(HIGHER_MEMBER_MESSAGE)
    return member


def is_beyond_reach(access, member):
    """Whether the member reaches something that exists and that whoever asks does not reach."""
    if access.reach == "all":
        return False
    if member.reach not in GRANTABLE_SCOPES[access.reach]:
        return True
    granted = [grant.resource_id for grant in member.grants]
    return any(
        session.scalar(select(model.id).where(model.id.in_(granted), ~access.visible_rows(model)).limit(1))
        for model in (Instance, Project)
    )


def update(access, member, *, role_id=None, reach=None, project_ids=(), resource_ids=()):
    """A new role or reach, which counts from the next click or call on."""
    if role_id:
        member.role = get_grantable_role(access, role_id)
    if reach:
        set_reach(access, member, reach, project_ids, resource_ids)
    session.flush()
    return member


def get_grantable_role(access, role_id):
    """A role that whoever asks may give to somebody."""
    found = get_role(role_id, access, "role_id")
    ensure_within_own_rights(access, found.permissions)
    return found


def set_reach(access, member, reach, project_ids=(), resource_ids=()):
    """Sets what the member reaches, of what whoever asks reaches too."""
    if reach not in GRANTABLE_SCOPES[access.reach]:
        raise Invalid(OUT_OF_REACH_MESSAGE, reach=OUT_OF_REACH_MESSAGE)
    chosen = make_grants(access, Instance, resource_ids, "resource_ids") if reach != "all" else []
    member.grants = chosen + (make_grants(access, Project, project_ids, "project_ids") if reach == "projects" else [])
    member.reach = reach


def make_grants(access, model, ids, field):
    """A grant for each of the rows, all of which whoever asks must reach."""
    found = session.scalars(select(model.id).where(model.id.in_(set(ids)), access.visible_rows(model))).all()
    kind = model.__tablename__.removesuffix("s")
    if len(found) < len(set(ids)):
        raise Invalid(f"One of the {kind}s does not exist.", **{field: f"No such {kind}."})
    return [ResourceGrant(resource_id=each, resource_type=kind) for each in found]


def remove(member):
    """Ends the membership with everything the person is signed in with. An account that the invitation made goes with
    it, unless it has got things of its own or a billing system knows it; what the member made stays the owner's."""
    person = member.account
    session.delete(member)
    session.flush()
    if person is None:
        return
    session.execute(delete(LoginSession).where(LoginSession.account_id == person.id))
    session.execute(delete(Token).where(or_(Token.account_id == person.id, Token.created_by_id == person.id)))
    made_for_it = person.created_at >= member.created_at and not person.is_admin and not person.external_id
    if made_for_it and not accounts.list_owned_resources(person):
        session.delete(person)
        session.flush()
