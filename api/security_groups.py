"""Firewalls: security groups, their rules, and the instances in them."""

from marshmallow import fields

from api import kit
from panel.core.db import session
from panel.schemas.base import describe
from panel.schemas.security_groups import (
    AdminSecurityGroupIn,
    AdminSecurityGroupOut,
    AdminSecurityGroupRow,
    AttachedOut,
    Members,
    SecurityGroupIn,
    SecurityGroupOut,
    SecurityGroupPatch,
    SecurityGroupQuery,
    SecurityGroupRow,
    SecurityRuleIn,
    SecurityRuleOut,
)
from panel.services import accounts, security_groups

user = kit.User("security_group", __name__, description="Security groups (firewalls)")
admin = kit.Admin("security_group", __name__, description="Security groups (firewalls)")
VIEW_PERMISSION, MANAGE_PERMISSION, DELETE_PERMISSION = (
    "security_groups.view",
    "security_groups.manage",
    "security_groups.delete",
)
READ_PERMISSION, WRITE_PERMISSION = "admin:security_groups:read", "admin:security_groups:write"


def get_own_group(group_id):
    return security_groups.get_own(group_id, kit.get_current_access())


@user.get(
    "/security-groups",
    op="list",
    can=VIEW_PERMISSION,
    query=SecurityGroupQuery,
    out=kit.build_page_schema(SecurityGroupRow),
)
def listing(query):
    """List your own and the platform's security groups, by name."""
    return kit.paginate(
        security_groups.with_counts(
            security_groups.listing(kit.get_current_access(), **query), kit.get_current_access()
        )
    )


@user.post(
    "/security-groups",
    op="create",
    can=MANAGE_PERMISSION,
    body=SecurityGroupIn,
    out=kit.build_wrapped_schema("security_group", SecurityGroupOut),
)
def create(body):
    """Create a security group.

    It has no rules yet: instances in it accept no inbound traffic, and all outbound traffic is allowed.
    """
    group = security_groups.create(kit.get_current_access(), **body)
    return {
        "message": "Security group created.",
        "security_group": security_groups.load_counts(group, kit.get_current_access()),
    }


@user.get(
    "/security-group/<group_id>",
    op="get",
    can=VIEW_PERMISSION,
    out=kit.build_result_schema(
        security_group=fields.Nested(SecurityGroupOut, **describe("The group.")),
        attached_instances=fields.List(
            fields.Nested(AttachedOut), **describe("The instances in the group that the user can access.")
        ),
    ),
)
def show(group_id):
    """Get a security group with its rules and instances."""
    group = security_groups.get(group_id, kit.get_current_access())
    attached_instances = session.scalars(security_groups.select_instances(group, kit.get_current_access())).all()
    return {
        "message": None,
        "security_group": security_groups.load_counts(group, kit.get_current_access()),
        "attached_instances": attached_instances,
    }


@user.patch(
    "/security-group/<group_id>",
    op="update",
    can=MANAGE_PERMISSION,
    body=SecurityGroupPatch,
    out=kit.build_wrapped_schema("security_group", SecurityGroupOut),
)
def update(body, group_id):
    """Update the name or description of a security group."""
    group = security_groups.update(get_own_group(group_id), **body)
    return {
        "message": "Security group updated.",
        "security_group": security_groups.load_counts(group, kit.get_current_access()),
    }


@user.delete("/security-group/<group_id>", op="delete", can=DELETE_PERMISSION, out=kit.build_result_schema())
def delete(group_id):
    """Delete a security group.

    Deletes its rules, and rules of other groups that refer to it. Instances that were in no other group accept all
    traffic afterwards.
    """
    security_groups.delete(get_own_group(group_id), actor=kit.get_current_actor())
    return {"message": "Security group deleted."}


@user.post(
    "/security-group/<group_id>/rules",
    op="add_rule",
    can=MANAGE_PERMISSION,
    body=SecurityRuleIn,
    out=kit.build_wrapped_schema("rule", SecurityRuleOut),
)
def add_rule(body, group_id):
    """Add a rule to a security group.

    Rules allow new connections; replies are always allowed. `tcp` and `udp` need both ports. Send at most one of
    `cidr`, `remote_group_id` and `ip_set_id` to restrict the peer; without one the rule applies to any address. Running
    instances are updated within seconds. Returns 422 for a rule that the group already has. Rules cannot be changed:
    delete the rule and add a new one.
    """
    rule = security_groups.add_rule(
        get_own_group(group_id), kit.get_current_access(), actor=kit.get_current_actor(), **body
    )
    return {"message": "Rule added.", "rule": rule}


@user.delete(
    "/security-group/<group_id>/rule/<rule_id>",
    op="remove_rule",
    can=MANAGE_PERMISSION,
    out=kit.build_result_schema(),
    aliases=("/api/security-group/<group_id>/rules/<rule_id>",),
)
def remove_rule(group_id, rule_id):
    """Delete a rule.

    Also available as `/api/security-group/{id}/rules/{rule_id}`. Connections that only this rule allowed are closed.
    """
    security_groups.remove_rule(get_own_group(group_id), rule_id, actor=kit.get_current_actor())
    return {"message": "Rule deleted."}


@user.post(
    "/security-group/<group_id>/attach-instances",
    op="attach_instances",
    can=MANAGE_PERMISSION,
    body=Members,
    out=kit.build_result_schema(),
)
def attach(body, group_id):
    """Add instances to a security group.

    Adds all of them or none. Instances that are already in the group stay in it. An instance can be in ten groups; the
    rules of all groups apply.
    """
    group = security_groups.get(group_id, kit.get_current_access())
    security_groups.attach(group, body["instance_ids"], kit.get_current_access(), actor=kit.get_current_actor())
    return {"message": "Instances added to the security group."}


@user.post(
    "/security-group/<group_id>/detach-instances",
    op="detach_instances",
    can=MANAGE_PERMISSION,
    body=Members,
    out=kit.build_result_schema(),
)
def detach(body, group_id):
    """Remove instances from a security group.

    Instances that are in no group afterwards accept all traffic.
    """
    group = security_groups.get(group_id, kit.get_current_access())
    security_groups.detach(group, body["instance_ids"], kit.get_current_access(), actor=kit.get_current_actor())
    return {"message": "Instances removed from the security group."}


@admin.get(
    "/security-groups",
    op="list",
    can=READ_PERMISSION,
    query=SecurityGroupQuery,
    out=kit.build_admin_page_schema(AdminSecurityGroupRow),
)
def admin_listing(query):
    """List the security groups of all users and the platform, by name.

    `account_id` is null for groups of the platform.
    """
    return kit.paginate(security_groups.with_counts(security_groups.listing(**query)))


@admin.post("/security-groups", op="create", can=WRITE_PERMISSION, body=AdminSecurityGroupIn, out=AdminSecurityGroupOut)
def admin_create(body):
    """Create a security group for a user or for the whole platform.

    `user_id: null` creates a group of the platform, which all users can use. It has no rules yet: instances in it
    accept no inbound traffic. Returns 422 if the user does not exist.
    """
    owner = body.pop("user_id")
    kit.set_message("Security group created.")
    return security_groups.load_counts(security_groups.create(owner and accounts.get(owner, "user_id"), **body))


@admin.get("/security-group/<group_id>", op="get", can=READ_PERMISSION, out=AdminSecurityGroupOut)
def admin_show(group_id):
    """Get a security group with its rules and instances.

    Returns 404 if the group does not exist.
    """
    return security_groups.load_counts(security_groups.get(group_id))


@admin.patch(
    "/security-group/<group_id>", op="update", can=WRITE_PERMISSION, body=SecurityGroupPatch, out=AdminSecurityGroupOut
)
def admin_update(body, group_id):
    """Update the name or description of a security group.

    Rules have their own operations. Running instances are not affected.
    """
    kit.set_message("Security group updated.")
    return security_groups.load_counts(security_groups.update(security_groups.get_own(group_id), **body))


@admin.delete("/security-group/<group_id>", op="delete", can=WRITE_PERMISSION)
def admin_delete(group_id):
    """Delete a security group.

    Deletes its rules, and rules of other groups that refer to it. Instances that were in no other group accept all
    traffic afterwards. Running instances are updated within seconds.
    """
    security_groups.delete(security_groups.get_own(group_id), actor=kit.get_current_actor())
    kit.set_message("Security group deleted.")


@admin.post(
    "/security-group/<group_id>/rules", op="add_rule", can=WRITE_PERMISSION, body=SecurityRuleIn, out=SecurityRuleOut
)
def admin_add_rule(body, group_id):
    """Add a rule to a security group.

    Groups of the platform can only refer to groups and IP sets of the platform. Running instances are updated within
    seconds. Returns 422 for a rule that the group already has, if the group is full, and for a peer of another account.
    """
    kit.set_message("Rule added.")
    return security_groups.add_rule(security_groups.get_own(group_id), actor=kit.get_current_actor(), **body)


@admin.delete(
    "/security-group/<group_id>/rule/<rule_id>",
    op="remove_rule",
    can=WRITE_PERMISSION,
    aliases=("/api/v1/security-group/<group_id>/rules/<rule_id>",),
)
def admin_remove_rule(group_id, rule_id):
    """Delete a rule.

    Also available as `/api/v1/security-group/{id}/rules/{rule_id}`. Connections that only this rule allowed are closed.
    """
    security_groups.remove_rule(security_groups.get_own(group_id), rule_id, actor=kit.get_current_actor())
    kit.set_message("Rule deleted.")


@admin.post("/security-group/<group_id>/attach-instances", op="attach_instances", can=WRITE_PERMISSION, body=Members)
def admin_attach(body, group_id):
    """Add instances to a security group.

    The instances must belong to the group's owner; a group of the platform accepts any instance. Adds all of them or
    none: returns 422 under `instance_ids` if one is unknown, belongs to another account or is already in ten groups.
    Running instances are updated within seconds.
    """
    security_groups.attach(security_groups.get_own(group_id), body["instance_ids"], actor=kit.get_current_actor())
    kit.set_message("Instances added to the security group.")


@admin.post("/security-group/<group_id>/detach-instances", op="detach_instances", can=WRITE_PERMISSION, body=Members)
def admin_detach(body, group_id):
    """Remove instances from a security group.

    Instances that are in no group afterwards accept all traffic. Instances that are not in the group are ignored.
    Running instances are updated within seconds.
    """
    security_groups.detach(security_groups.get_own(group_id), body["instance_ids"], actor=kit.get_current_actor())
    kit.set_message("Instances removed from the security group.")
