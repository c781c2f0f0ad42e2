"""The context of an instance's network tab, without its interfaces."""

from panel.pages.shared.area import has_permission, owner_of
from panel.services import address_allocation, firewall_view, security_groups, usage
from panel.services.instances import traffic


def build_context(instance):
    """Return the context of the tab.

    `passed` is the traffic, `named` a function for the labels of its months, `promised` the used and entitled
    addresses. `groups`, `joinable` (groups the instance is not in) and `firewall` (the effective rules) are empty
    without the permission to see security groups.
    """
    context = {
        "passed": traffic.describe_traffic(instance),
        "named": usage.month_label,
        "promised": address_allocation.get_usage(instance),
    }
    if not has_permission("security_groups.view"):
        return {**context, "groups": None, "joinable": [], "firewall": None}
    pairs = security_groups.list_memberships(instance, owner_of(instance))
    return {
        **context,
        "firewall": firewall_view.describe(instance),
        "groups": [group for group, inside in pairs if inside],
        "joinable": [(group.id, group.name) for group, inside in pairs if not inside],
    }
