"""Every permission of every surface, in one table. What is not here cannot be asked for."""

FAMILIES = ("instances", "ssh_keys", "images", "account")
"""The scope families of the resources that exist (specification 5.3). Each has `:read` and `:write`."""

USER = tuple(f"{family}:{verb}" for family in FAMILIES for verb in ("read", "write"))

ADMIN_RESOURCES = (
    "accounts",
    "catalog",
    "hypervisors",
    "images",
    "instances",
    "subnets",
    "system",
    "tasks",
)
ADMIN = tuple(f"admin:{resource}:{verb}" for resource in ADMIN_RESOURCES for verb in ("read", "write"))

ANY_USER = "any_user_token"
"""Routes that confirm a token and need no scope."""
ANY_ADMIN = "any_admin_token"
PUBLIC = "public"

EVERY = frozenset((*USER, *ADMIN, ANY_USER, ANY_ADMIN, PUBLIC))


def check(permission):
    """The permission itself, if the table has it: a misspelt one must not start."""
    if permission not in EVERY:
        raise LookupError(f"{permission} is not a permission.")
    return permission
