"""Changing the owner of an instance."""

from api import kit
from api.instances import admin
from panel.schemas.base import In, Text, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.instances import AdminInstanceOut
from panel.services import accounts, instances
from panel.services.instances import ownership

NEW_OWNER_MESSAGE, SAME_OWNER_MESSAGE = "Owner changed.", "The instance already belongs to this owner."
OWNERSHIP_TEXT = """

Disks, addresses, snapshots, notes, tags and membership in the platform's security groups are kept. The project and
grants to team members are not; previous tasks and events stay with the previous owner, who is also charged for the
current hour. Returns 422 under `user_id` for a team member or a suspended account, and 409 `task_running`,
`has_volumes` (attached), `rescue_active`, `has_media` (an ISO of the owner in a drive), `has_security_groups` (of the
owner) or `has_pack` (created from a resource pack)."""


class Assign(In):
    user_id = Text(maximum=36, required=True, **describe("The new owner.", EXAMPLE_ID))


def change_owner(instance_id, account):
    kit.set_message(NEW_OWNER_MESSAGE if ownership.assign(instances.get(instance_id), account) else SAME_OWNER_MESSAGE)
    return instances.get(instance_id)


def assign(body, instance_id):
    return change_owner(instance_id, accounts.get(body["user_id"], "user_id"))


def modify_user(instance_id, account_id):
    return change_owner(instance_id, accounts.get(account_id))


assign.__doc__ = "Change the owner of an instance." + OWNERSHIP_TEXT
modify_user.__doc__ = "Change the owner of an instance to the user in the path." + OWNERSHIP_TEXT
admin.post(
    "/instance/<instance_id>/assign-user",
    op="assign_user",
    can="admin:instances:write",
    body=Assign,
    out=AdminInstanceOut,
)(assign)
admin.put(
    "/instance/<instance_id>/modify/user/<account_id>",
    op="modify_user",
    can="admin:instances:write",
    out=AdminInstanceOut,
)(modify_user)
