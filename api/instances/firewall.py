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
    """Get the security groups of an instance and their combined rules.

    Without a group all traffic is allowed. With groups, only inbound traffic that matches a rule is allowed; all
    outbound traffic is allowed unless a group has rules for it. Replies to allowed connections are always allowed.

    Team members also need `security_groups.view`, because the rules belong to security groups. The token's scope is
    determined by the path alone.
    """
    instance = get_own_instance(instance_id)
    require_also("security_groups.view")
    return {"message": None, "firewall": firewall_view.describe_firewall(instance)}
