"""The context of an instance's network tab, without its interfaces."""

from panel.pages.shared.area import get_owner, has_permission
from panel.services import address_allocation, firewall_view, security_groups, usage
from panel.services.instances import traffic


def build_context(instance):
    """Return the context of the tab.

    `traffic_usage` is the traffic, `month_label` a function for its months, `address_usage` the used and entitled
    addresses. `groups`, `joinable_groups` (groups the instance is not in) and `firewall` (the effective rules) are
    empty without the permission to see security groups.
    """
    context = {
        "traffic_usage": traffic.describe_traffic(instance),
        "month_label": usage.month_label,
        "address_usage": address_allocation.get_usage(instance),
    }
    if not has_permission("security_groups.view"):
        return {**context, "groups": None, "joinable_groups": [], "firewall": None}
    pairs = security_groups.list_memberships(instance, get_owner(instance))
    return {
        **context,
        "firewall": firewall_view.describe_firewall(instance),
        "groups": [group for group, is_member in pairs if is_member],
        "joinable_groups": [(group.id, group.name) for group, is_member in pairs if not is_member],
    }
