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

user = kit.User("security_group", __name__, description="Firewalls of instances")
admin = kit.Admin("security_group", __name__, description="Firewalls of instances")
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
    """List security groups by name: one's own and the platform's."""
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
    """Make a security group.

    It has no rules yet: nothing may reach an instance that is put into it, and everything may go out.
    """
    group = security_groups.create(kit.get_current_access(), **body)
    return {
        "message": "The group is made.",
        "security_group": security_groups.load_counts(group, kit.get_current_access()),
    }


@user.get(
    "/security-group/<group_id>",
    op="get",
    can=VIEW_PERMISSION,
    out=kit.build_result_schema(
        security_group=fields.Nested(SecurityGroupOut, **describe("The group.")),
        attached_instances=fields.List(
            fields.Nested(AttachedOut), **describe("The instances in it that are in reach.")
        ),
    ),
)
def show(group_id):
    """Show a security group with its rules and instances."""
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
    """Change the name or the note of a security group."""
    group = security_groups.update(get_own_group(group_id), **body)
    return {
        "message": "The group is changed.",
        "security_group": security_groups.load_counts(group, kit.get_current_access()),
    }


@user.delete("/security-group/<group_id>", op="delete", can=DELETE_PERMISSION, out=kit.build_result_schema())
def delete(group_id):
    """Remove a security group.

    Its rules go with it, and rules of other groups that refer to it. An instance that was in no other group is open.
    """
    security_groups.delete(get_own_group(group_id), actor=kit.get_current_actor())
    return {"message": "The group is removed."}


@user.post(
    "/security-group/<group_id>/rules",
    op="add_rule",
    can=MANAGE_PERMISSION,
    body=SecurityRuleIn,
    out=kit.build_wrapped_schema("rule", SecurityRuleOut),
)
def add_rule(body, group_id):
    """Add a rule.

    It says what may begin; answers always pass. `tcp` and `udp` need both ports. At most one of `cidr`,
    `remote_group_id` and `ip_set_id` says with whom; without any it is with everybody. Running instances of the group
    get it within seconds. A rule that the group has already is refused. There is no change of a rule: remove it and add
    another.
    """
    rule = security_groups.add_rule(
        get_own_group(group_id), kit.get_current_access(), actor=kit.get_current_actor(), **body
    )
    return {"message": "The rule is added.", "rule": rule}


@user.delete(
    "/security-group/<group_id>/rule/<rule_id>",
    op="remove_rule",
    can=MANAGE_PERMISSION,
    out=kit.build_result_schema(),
    aliases=("/api/security-group/<group_id>/rules/<rule_id>",),
)
def remove_rule(group_id, rule_id):
    """Remove a rule.

    Also served as `/api/security-group/{id}/rules/{rule_id}`. Connections that only this rule allowed are cut.
    """
    security_groups.remove_rule(get_own_group(group_id), rule_id, actor=kit.get_current_actor())
    return {"message": "The rule is removed."}


@user.post(
    "/security-group/<group_id>/attach-instances",
    op="attach_instances",
    can=MANAGE_PERMISSION,
    body=Members,
    out=kit.build_result_schema(),
)
def attach(body, group_id):
    """Put instances into a security group.

    All of them or none. Those that are in it stay. An instance may be in ten groups, whose rules add up.
    """
    group = security_groups.get(group_id, kit.get_current_access())
    security_groups.attach(group, body["instance_ids"], kit.get_current_access(), actor=kit.get_current_actor())
    return {"message": "The instances are in the group."}


@user.post(
    "/security-group/<group_id>/detach-instances",
    op="detach_instances",
    can=MANAGE_PERMISSION,
    body=Members,
    out=kit.build_result_schema(),
)
def detach(body, group_id):
    """Take instances out of a security group.

    One that is in no group afterwards is open.
    """
    group = security_groups.get(group_id, kit.get_current_access())
    security_groups.detach(group, body["instance_ids"], kit.get_current_access(), actor=kit.get_current_actor())
    return {"message": "The instances are not in the group any more."}


@admin.get(
    "/security-groups",
    op="list",
    can=READ_PERMISSION,
    query=SecurityGroupQuery,
    out=kit.build_admin_page_schema(AdminSecurityGroupRow),
)
def admin_listing(query):
    """List everybody's security groups and the platform's.

    By name. `account_id` is null for the platform's.
    """
    return kit.paginate(security_groups.with_counts(security_groups.listing(**query)))


@admin.post("/security-groups", op="create", can=WRITE_PERMISSION, body=AdminSecurityGroupIn, out=AdminSecurityGroupOut)
def admin_create(body):
    """Make a security group for a user, or one of the platform's that everybody may use.

    `user_id: null` makes one of the platform's. It has no rules yet: an instance that is put into it is reached by
    nobody. 422 for an unknown user.
    """
    owner = body.pop("user_id")
    kit.set_message("The group is made.")
    return security_groups.load_counts(security_groups.create(owner and accounts.get(owner, "user_id"), **body))


@admin.get("/security-group/<group_id>", op="get", can=READ_PERMISSION, out=AdminSecurityGroupOut)
def admin_show(group_id):
    """Show a security group with its rules and instances.

    With the instances that are in it. 404 when there is no such group.
    """
    return security_groups.load_counts(security_groups.get(group_id))


@admin.patch(
    "/security-group/<group_id>", op="update", can=WRITE_PERMISSION, body=SecurityGroupPatch, out=AdminSecurityGroupOut
)
def admin_update(body, group_id):
    """Change the name or the note of a security group.

    Rules are changed by their own operations. Running instances are not affected.
    """
    kit.set_message("The group is changed.")
    return security_groups.load_counts(security_groups.update(security_groups.get_own(group_id), **body))


@admin.delete("/security-group/<group_id>", op="delete", can=WRITE_PERMISSION)
def admin_delete(group_id):
    """Remove a security group.

    An instance that was in no other group is open. Its rules go with it, and rules of other groups that refer to it.
    Running instances follow within seconds.
    """
    security_groups.delete(security_groups.get_own(group_id), actor=kit.get_current_actor())
    kit.set_message("The group is removed.")


@admin.post(
    "/security-group/<group_id>/rules", op="add_rule", can=WRITE_PERMISSION, body=SecurityRuleIn, out=SecurityRuleOut
)
def admin_add_rule(body, group_id):
    """Add a rule.

    The platform's groups refer only to what is the platform's. Running instances of the group follow within seconds.
    422 for a rule that the group has already, for a full group, and for a peer that belongs to another account.
    """
    kit.set_message("The rule is added.")
    return security_groups.add_rule(security_groups.get_own(group_id), actor=kit.get_current_actor(), **body)


@admin.delete(
    "/security-group/<group_id>/rule/<rule_id>",
    op="remove_rule",
    can=WRITE_PERMISSION,
    aliases=("/api/v1/security-group/<group_id>/rules/<rule_id>",),
)
def admin_remove_rule(group_id, rule_id):
    """Remove a rule.

    Also served as `/api/v1/security-group/{id}/rules/{rule_id}`. Connections that only this rule allowed are cut.
    """
    security_groups.remove_rule(security_groups.get_own(group_id), rule_id, actor=kit.get_current_actor())
    kit.set_message("The rule is removed.")


@admin.post("/security-group/<group_id>/attach-instances", op="attach_instances", can=WRITE_PERMISSION, body=Members)
def admin_attach(body, group_id):
    """Put instances of the group's owner into a security group; into one of the platform's any.

    All of them or none: 422 under `instance_ids` when one is unknown, belongs to somebody else, or is in ten groups.
    Running instances follow within seconds.
    """
    security_groups.attach(security_groups.get_own(group_id), body["instance_ids"], actor=kit.get_current_actor())
    kit.set_message("The instances are in the group.")


@admin.post("/security-group/<group_id>/detach-instances", op="detach_instances", can=WRITE_PERMISSION, body=Members)
def admin_detach(body, group_id):
    """Take instances out of a security group.

    One that is in no group afterwards is open. Instances that are not in it are passed over. Running instances follow
    within seconds.
    """
    security_groups.detach(security_groups.get_own(group_id), body["instance_ids"], actor=kit.get_current_actor())
    kit.set_message("The instances are not in the group any more.")
