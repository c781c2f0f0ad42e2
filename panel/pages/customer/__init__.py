"""The customer area and its navigation."""

from panel.auth import permissions

BILLED_PAGES = ("volumes.index",)
"""Endpoints that need billing to be on, or an unbilled account (specification 7.2)."""

BILLED_FAMILIES = ("volumes",)
"""Families of permissions that only these pages need."""

NAVIGATION = (
    # group, then for each page: label, icon, endpoint, permission
    (
        "",
        ("Overview", "layout-dashboard", "overview.show", permissions.ANY_USER),
        ("Projects", "folder", "projects.index", "projects.view"),
    ),
    (
        "Compute",
        ("Instances", "server", "instances.index", "instances.view"),
        ("Resource packs", "package", "resource_packs.index", "instances.view"),
    ),
    (
        "Storage",
        ("Volumes", "database", "volumes.index", "volumes.view"),
        ("Images", "copy", "images.index", "images.view"),
        ("ISOs", "disc", "isos.index", "isos.view"),
    ),
    (
        "Network",
        ("Security groups", "shield", "security_groups.index", "security_groups.view"),
        ("IP sets", "list-details", "ip_sets.index", "ip_sets.view"),
        ("Certificates", "certificate", "certificates.index", "certificates.view"),
    ),
    (
        "Watch",
        ("Tasks", "list-check", "tasks.index", "instances.view"),
        ("Activity", "history", "activity.index", permissions.ANY_USER),
    ),
    (
        "Account",
        ("Team", "users", "team.index", "account.view"),
        ("SSH keys", "key", "ssh_keys.index", "ssh_keys.view"),
        ("User scripts", "file-text", "user_scripts.index", "user_scripts.view"),
        ("API tokens", "api", "tokens.index", permissions.ANY_USER),
        ("Webhooks", "webhook", "webhooks.index", "webhooks.view"),
        ("Billing", "credit-card", "billing.show", "billing.view"),
        ("API reference", "code", "documentation.show", permissions.ANY_USER),
        ("Profile", "user-circle", "profile.show", permissions.ANY_USER),
    ),
)
