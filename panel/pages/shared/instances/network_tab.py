"""What the network tab of an instance shows beside its cards."""

from panel.pages.shared.area import has_permission, owner_of
from panel.services import address_allocation, firewall_view, security_groups, usage
from panel.services.instances import traffic


def build_context(instance):
    """`passed` is the traffic, `named` how people call its months, `promised` what the plan comes with.

    `groups` the instance is in, `joinable` ones, and what the `firewall` comes to; none to who may not see groups."""
    found = {
        "passed": traffic.describe_traffic(instance),
        "named": usage.month_label,
        "promised": address_allocation.get_usage(instance),
    }
    if not has_permission("security_groups.view"):
        return {**found, "groups": None, "joinable": [], "firewall": None}
    pairs = security_groups.list_memberships(instance, owner_of(instance))
    return {
        **found,
        "firewall": firewall_view.describe(instance),
        "groups": [group for group, inside in pairs if inside],
        "joinable": [(group.id, group.name) for group, inside in pairs if not inside],
    }
