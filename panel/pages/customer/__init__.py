"""The customer area, one module for each resource, and the groups of its navigation."""

from panel.web.page_registry import NavigationGroup

NAVIGATION_GROUPS = (
    NavigationGroup(""),
    NavigationGroup("compute", "Compute"),
    NavigationGroup("storage", "Storage"),
    NavigationGroup("network", "Network"),
    NavigationGroup("watch", "Monitoring"),
    NavigationGroup("account", "Account", is_in_account_menu=True),
)
