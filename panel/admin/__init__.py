"""What operators see. The navigation has the shape of panel.user.NAVIGATION."""

NAVIGATION = (
    ("", ("Overview", "layout-dashboard", "admin.show", "admin:system:read")),
    (
        "Customers",
        ("Instances", "server", "admin_instances.index", "admin:instances:read"),
        ("Customers", "users", "admin_accounts.index", "admin:accounts:read"),
        ("Tasks", "list-check", "admin_tasks.index", "admin:tasks:read"),
    ),
    (
        "Platform",
        ("Hypervisors", "server-2", "admin_hypervisors.index", "admin:hypervisors:read"),
        ("Locations", "map-pin", "admin_hypervisor_groups.index", "admin:hypervisors:read"),
        ("Subnets", "network", "admin_subnets.index", "admin:subnets:read"),
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
        hypervisor_groups,
        hypervisors,
        images,
        instances,
        overview,
        plan_groups,
        plans,
        storages,
        subnets,
        tasks,
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
        accounts,
        tasks,
    )
