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

admin = kit.Admin("group_grant", __name__, description="Access to hypervisor groups")
READ_PERMISSION, WRITE_PERMISSION = "admin:hypervisors:read", "admin:hypervisors:write"
GROUP_PATH = "/hypervisor/group/<group_id>"
OF_USER = "/user/<account_id>/hypervisor-groups"


@admin.put(f"{GROUP_PATH}/access", op="access", can=WRITE_PERMISSION, body=AccessIn, out=AccessOut)
def access(body, group_id):
    """Open a hypervisor group to all customers, or only to accounts with a grant.

    Accounts without access no longer see the location and cannot create resources there. Existing resources are not
    affected.
    """
    kit.set_message("Access updated.")
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

    Grants only have an effect while the group is not public.
    """
    return kit.paginate(group_grants.select_grants(hypervisors.get_group(group_id), **query))


@admin.post(f"{GROUP_PATH}/affected-count", op="affected", can=READ_PERMISSION, body=AccessIn, out=AffectedOut)
def affected(body, group_id):
    """Count the accounts that would lose access to a hypervisor group.

    Nothing is changed. Send the same body as for the change of access: `public` and, optionally, `account_ids`. Returns
    422 under `account_ids` for an unknown account or a team member.
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
    """List the accounts that can get a grant: owners of resources, not team members.

    `search` matches names, companies and email addresses. Operators are not included.
    """
    return kit.paginate(group_grants.select_grantable(**query))


@admin.get(OF_USER, op="of_user", can=READ_PERMISSION, out=ChoosableOut(many=True))
def list_groups_of_user(account_id):
    """List the hypervisor groups that a user can select.

    Contains public groups and those with a grant (see `granted`). The list is complete and has no pages.
    """
    return group_grants.list_choosable(accounts.get(account_id))


@admin.put(f"{OF_USER}/<group_id>", op="grant", can=WRITE_PERMISSION)
def grant(account_id, group_id):
    """Grant a user access to a hypervisor group.

    Takes effect immediately. Does nothing if the grant exists. Returns 422 for a team member: members use the access of
    their owner.
    """
    group_grants.grant(hypervisors.get_group(group_id), accounts.get(account_id))
    kit.set_message("Access granted.")


@admin.delete(f"{OF_USER}/<group_id>", op="revoke", can=WRITE_PERMISSION)
def revoke(account_id, group_id):
    """Revoke a user's access to a hypervisor group.

    Existing resources of the user stay and can still be changed and destroyed. The user cannot create new resources
    there unless the group is public. Does nothing if there is no grant.
    """
    group_grants.revoke(hypervisors.get_group(group_id), accounts.get(account_id))
    kit.set_message("Access revoked.")
