"""What operators see. The navigation has the shape of panel.user.NAVIGATION."""

NAVIGATION = (
    ("", ("Overview", "layout-dashboard", "admin.show", "admin:system:read")),
    (
        "Customers",
        ("Instances", "server", "admin_instances.index", "admin:instances:read"),
        ("Customers", "users", "admin_accounts.index", "admin:accounts:read"),
        ("Billing", "credit-card", "admin_billing.index", "admin:billing:read"),
        ("Consoles", "terminal-2", "admin_consoles.index", "admin:instances:read"),
        ("Tasks", "list-check", "admin_tasks.index", "admin:tasks:read"),
    ),
    (
        "Platform",
        ("Hypervisors", "server-2", "admin_hypervisors.index", "admin:hypervisors:read"),
        ("Locations", "map-pin", "admin_hypervisor_groups.index", "admin:hypervisors:read"),
        ("Subnets", "network", "admin_subnets.index", "admin:subnets:read"),
    ),
    (
        "Control",
        ("API tokens", "api", "admin_tokens.index", "admin:tokens:read"),
        ("Audit log", "file-text", "admin_audit.index", "admin:audit:read"),
        ("Settings", "settings", "admin_settings.show", "admin:settings:read"),
    ),
    (
        "Catalog",
        ("Plans", "package", "admin_plans.index", "admin:catalog:read"),
        ("Plan groups", "stack-2", "admin_plan_groups.index", "admin:catalog:read"),
        ("Images", "disc", "admin_images.index", "admin:images:read"),
    ),
)


def pages():
    """Every module here that has a blueprint."""
    from panel.admin import (
        accounts,
        audit,
        billing,
        consoles,
        hypervisor_groups,
        hypervisors,
        images,
        impersonations,
        instances,
        overview,
        plan_groups,
        plans,
        settings,
        storages,
        subnets,
        tasks,
        tokens,
    )

    return (
        overview,
        hypervisors,
        storages,
        hypervisor_groups,
        subnets,
        plans,
        plan_groups,
        images,
        instances,
        consoles,
        accounts,
        impersonations,
        tokens,
        billing,
        tasks,
        audit,
        settings,
    )
