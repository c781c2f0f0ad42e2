"""The firewall of an instance in one view."""

from api import kit
from api.instances import user
from api.instances.customer import get_own_instance
from panel.auth import require_also
from panel.schemas.firewall import FirewallOut
from panel.services import firewall_view


@user.get(
    "/instance/<instance_id>/firewall",
    op="firewall",
    can="instances.view",
    out=kit.build_wrapped_schema("firewall", FirewallOut),
)
def firewall(instance_id):
    """Show the security groups of an instance and what they allow together.

    In no group everything passes. In one or more, only what a rule allows may come in; everything may go out unless a
    group has rules for that. Answers to what was begun rightly always pass.

    Team members also need `security_groups.view`, because the rules are those of security groups. The token's scope
    comes from the path alone.
    """
    instance = get_own_instance(instance_id)
    require_also("security_groups.view")
    return {"message": None, "firewall": firewall_view.describe_firewall(instance)}
