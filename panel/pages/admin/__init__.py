"""The operator area, one module for each resource, and the groups of its navigation."""

from panel.web.page_registry import NavigationGroup

NAVIGATION_GROUPS = (
    NavigationGroup(""),
    NavigationGroup("customers", "Customers"),
    NavigationGroup("platform", "Platform"),
    NavigationGroup("catalog", "Catalog"),
    NavigationGroup("control", "Control"),
)
