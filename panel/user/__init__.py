"""What customers see. The navigation lists the pages in the order in which people look for them."""

from panel.auth import permissions

NAVIGATION = (
    # group, then for each page: label, icon, endpoint, permission
    ("", ("Overview", "layout-dashboard", "overview.show", "instances:read")),
    ("Compute", ("Instances", "server", "instances.index", "instances:read")),
    (
        "Watch",
        ("Tasks", "list-check", "tasks.index", "instances:read"),
        ("Activity", "history", "activity.index", "instances:read"),
    ),
    (
        "Account",
        ("SSH keys", "key", "ssh_keys.index", "ssh_keys:read"),
        ("Profile", "user-circle", "profile.show", permissions.ANY_USER),
    ),
)
