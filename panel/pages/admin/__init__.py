"""The operator area, one module for each resource, and the groups of its navigation."""

from panel.web.page_registry import NavigationGroup

NAVIGATION_GROUPS = (
    NavigationGroup(""),
    NavigationGroup("resources", "Resources"),
    NavigationGroup("platform", "Platform"),
    NavigationGroup("customers", "Customers", is_open=False),
    NavigationGroup("catalog", "Catalog", is_open=False),
    NavigationGroup("control", "Control", is_open=False),
)
