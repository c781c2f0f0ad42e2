"""What the network tab of an instance shows beside its cards."""

from panel.auth.browser import may, viewer
from panel.services import security_groups
from panel.services.instances import traffic


def shown(instance):
    """`passed` is the traffic. `groups` the instance is in, and `joinable` ones; none to who may not see them."""
    found = {"passed": traffic.of(instance)}
    if not may("security_groups.view"):
        return {**found, "groups": None, "joinable": []}
    pairs = security_groups.belonging(instance, viewer())
    return {
        **found,
        "groups": [group for group, inside in pairs if inside],
        "joinable": [(group.id, group.name) for group, inside in pairs if not inside],
    }
