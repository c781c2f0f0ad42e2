"""Location grants: which accounts may choose a hypervisor group."""

from api import kit
from panel.schemas.group_grants import (
    AccessIn,
    AccessOut,
    AffectedOut,
    ChoosableOut,
    GrantableOut,
    GrantableQuery,
    GroupGrantOut,
)
from panel.services import accounts, group_grants, hypervisors

admin = kit.Admin("group_grant", __name__, description="Who may choose a hypervisor group")
READ_PERMISSION, WRITE_PERMISSION = "admin:hypervisors:read", "admin:hypervisors:write"
GROUP_PATH = "/hypervisor/group/<group_id>"
OF_USER = "/user/<account_id>/hypervisor-groups"


@admin.put(f"{GROUP_PATH}/access", op="access", can=WRITE_PERMISSION, body=AccessIn, out=AccessOut)
def access(body, group_id):
    """Open a hypervisor group to every customer, or to accounts with a grant.

    To others it is an unknown location then: lists hide it and nothing new can be made there. What exists goes on.
    """
    kit.set_message("The access is changed.")
    return group_grants.set_access(hypervisors.get_group(group_id), **body)


@admin.get(
    f"{GROUP_PATH}/grants",
    op="list",
    can=READ_PERMISSION,
    query=GrantableQuery,
    out=kit.build_admin_page_schema(GroupGrantOut),
)
def listing(query, group_id):
    """List the grants of a hypervisor group, by email address.

    They count while it is not public. A public group is open to everybody, with or without a grant.
    """
    return kit.paginate(group_grants.select_grants(hypervisors.get_group(group_id), **query))


@admin.post(f"{GROUP_PATH}/affected-count", op="affected", can=READ_PERMISSION, body=AccessIn, out=AffectedOut)
def affected(body, group_id):
    """Count whom a change of access would close the group to.

    Nothing is changed. Send what the change would send: `public` and, if they change, `account_ids`. 422 under
    `account_ids` for an unknown account or a member of a team.
    """
    return group_grants.count_affected(hypervisors.get_group(group_id), **body)


@admin.get(
    "/grantable-account-owners",
    op="grantable",
    can=READ_PERMISSION,
    query=GrantableQuery,
    out=kit.build_admin_page_schema(GrantableOut),
)
def grantable(query):
    """List the accounts that can be granted a group: those with resources of their own, not members of teams.

    `search` looks at names, companies and email addresses. Operators are not in it.
    """
    return kit.paginate(group_grants.select_grantable(**query))


@admin.get(OF_USER, op="of_user", can=READ_PERMISSION, out=ChoosableOut(many=True))
def list_groups_of_user(account_id):
    """List the hypervisor groups that a user may choose.

    Public ones and those with a grant; `granted` says which. Complete, without pages.
    """
    return group_grants.list_choosable(accounts.get(account_id))


@admin.put(f"{OF_USER}/<group_id>", op="grant", can=WRITE_PERMISSION)
def grant(account_id, group_id):
    """Grant a hypervisor group to a user.

    Refused for members of teams, who use what their owner may. It counts for new resources at once. Repeated, it
    changes nothing. 422 for a member of a team.
    """
    group_grants.grant(hypervisors.get_group(group_id), accounts.get(account_id))
    kit.set_message("The group is granted.")


@admin.delete(f"{OF_USER}/<group_id>", op="revoke", can=WRITE_PERMISSION)
def revoke(account_id, group_id):
    """Take a grant back.

    What the user has there goes on. It can be changed and destroyed, and nothing new can be made there unless the group
    is public. Repeated, it changes nothing.
    """
    group_grants.revoke(hypervisors.get_group(group_id), accounts.get(account_id))
    kit.set_message("The grant is taken back.")
