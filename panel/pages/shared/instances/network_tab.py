"""What the network tab of an instance shows beside its cards."""

from panel.pages.shared.area import may, whose
from panel.services import address_allocation, firewall_view, security_groups, usage
from panel.services.instances import traffic


def shown(instance):
    """`passed` is the traffic, `named` how people call its months, `promised` what the plan comes with.

    `groups` the instance is in, `joinable` ones, and what the `firewall` comes to; none to who may not see groups."""
    found = {"passed": traffic.of(instance), "named": usage.named, "promised": address_allocation.kept(instance)}
    if not may("security_groups.view"):
        return {**found, "groups": None, "joinable": [], "firewall": None}
    pairs = security_groups.belonging(instance, whose(instance))
    return {
        **found,
        "firewall": firewall_view.of(instance),
        "groups": [group for group, inside in pairs if inside],
        "joinable": [(group.id, group.name) for group, inside in pairs if not inside],
    }
