"""All permissions and scopes. Routes can require only what is listed here.

A call of the user API needs three things: a token with the scope of the path and method, a person with the permission
that the route names, and an allowed source address.
"""

from panel.schemas import constants
from panel.services import operator_roles

PERMISSION_FAMILIES = tuple(constants.SCOPE_FAMILIES)
"""The scope families (IDT-22, and one for each resource of the panel's own)."""

PATH_SEGMENTS_BY_FAMILY = {
    "account": "profile dashboard team api-token api-tokens api-token-scopes usage-report account activity "
    "notifications notification-preferences announcements announcement",
    "backup_policies": "backup-policies backup-policy",
    "certificates": "certificates certificate",
    "databases": "databases database db networking",
    "dns_zones": "dns-zones dns-zone",
    "images": "images image",
    "instances": "instances instance cloud-service self-provisioning backups backup tasks task",
    "ip_sets": "ip-sets ip-set",
    "isos": "isos iso",
    "kubernetes": "kubernetes",
    "load_balancers": "load-balancers load-balancer",
    "metrics": "metrics",
    "microvm": "microvm",
    "monitoring": "monitoring alert-rules alert-rule notification-channels notification-channel",
    "projects": "projects project",
    "s3_buckets": "object-storage",
    "scaling_groups": "scaling-groups scaling-group",
    "security_groups": "security-groups security-group",
    "ssh_keys": "ssh-keys ssh-key",
    "static_ips": "static-ips static-ip",
    "user_scripts": "user-scripts user-script",
    "volumes": "storage",
    "vpcs": "vpcs vpc",
    "vpn_gateways": "vpn-gateways vpn-gateway",
    "webhooks": "webhook-event-kinds webhook-subscriptions webhook-subscription",
}
"""The first path segments of each scope family."""

SCOPE_FAMILY_BY_VPC_SEGMENT = {"nat-gateway": "nat_gateways", "vpn-gateway": "vpn_gateways"}
"""Scope families of paths below a VPC's path."""

SCOPE_FAMILY_BY_SEGMENT = {
    segment: family for family, segments in PATH_SEGMENTS_BY_FAMILY.items() for segment in segments.split()
}
READ_METHODS = ("GET", "HEAD", "OPTIONS")

USER_SCOPES = constants.SCOPES
"""The scopes of tokens. `:write` does not include `:read`."""

PERMISSION_VERBS = ("view", "manage", "delete")
SPECIAL_PERMISSIONS = (
    "instances.create",
    "instances.power",
    "instances.console",
    "instances.backups",
    "instances.restore",
    "team.manage",
    "api_tokens.manage",
    "billing.view",
)
MEMBER_PERMISSIONS = (
    *(f"{family}.{verb}" for family in PERMISSION_FAMILIES for verb in PERMISSION_VERBS),
    *SPECIAL_PERMISSIONS,
)
"""The permissions that a team role may have. The owner of an account has all of them."""

ADMIN_RESOURCES = (
    "accounts",
    "audit",
    "billing",
    "catalog",
    "hypervisors",
    "images",
    "instances",
    "ip_sets",
    "microvm",
    "operators",
    "security_groups",
    "settings",
    "subnets",
    "system",
    "tasks",
    "tokens",
    "volumes",
)
ADMIN_PERMISSIONS = tuple(f"admin:{resource}:{verb}" for resource in ADMIN_RESOURCES for verb in ("read", "write"))
SUPPORT_WRITE_RESOURCES = ("accounts", "instances", "tasks")
"""Resources that operators with the role support may change. They may read the others."""

OPERATOR_READ_PERMISSIONS = frozenset(name for name in ADMIN_PERMISSIONS if name.endswith(":read"))
OPERATOR_ROLES = {
    "full": frozenset(ADMIN_PERMISSIONS),
    "support": OPERATOR_READ_PERMISSIONS | {f"admin:{resource}:write" for resource in SUPPORT_WRITE_RESOURCES},
    "read_only": OPERATOR_READ_PERMISSIONS,
}

OPERATOR_ROLE_LABELS = {"full": "Full", "support": "Support", "read_only": "Read only"}
"""Labels of the operators' roles on pages."""

OPERATOR_FAMILY = {
    "backup_policies": "instances",
    "isos": "images",
    "projects": "accounts",
    "ssh_keys": "accounts",
    "user_scripts": "accounts",
}
"""The operators' resource for a family of customers' permissions, where the names differ."""

ANY_USER = "any_user_token"
"""For routes that need a valid token but no particular permission, such as confirming a token."""
PERSONAL = "own_security"
"""For changes of one's own account security: allowed with any role, but not while impersonating."""
FORBIDDEN_WHILE_IMPERSONATING = (PERSONAL, "api_tokens.manage")
"""Permissions that an operator does not have while impersonating."""
ROLE_INDEPENDENT = (ANY_USER, PERSONAL)
ANY_ADMIN = "any_admin_token"
BILLING = "billing_token"
PUBLIC = "public"

ALL_PERMISSIONS = frozenset((*MEMBER_PERMISSIONS, *ADMIN_PERMISSIONS, ANY_USER, PERSONAL, ANY_ADMIN, BILLING, PUBLIC))
UNSCOPED_SEGMENTS = ("connect", "version")
"""First segments of the two paths that need no scope (IDT-23, IDT-24)."""


def validate_permission(permission):
    """Return the permission. Raise LookupError for an unknown one, so that a misspelt one fails at start."""
    if permission not in ALL_PERMISSIONS:
        raise LookupError(f"{permission} is not a permission.")
    return permission


def find_required_scope(path, method):
    """Return the scope that a token needs for this path of the user API, or None for the two that need none.

    `path` may have placeholders. Raise LookupError for a path of no family.
    """
    segment, *further_segments = path.removeprefix("/api/").strip("/").split("/")
    if segment in UNSCOPED_SEGMENTS and not further_segments:
        return None
    family = (
        SCOPE_FAMILY_BY_VPC_SEGMENT.get(further_segments[1]) if segment == "vpc" and len(further_segments) > 1 else None
    ) or SCOPE_FAMILY_BY_SEGMENT.get(segment)
    if family is None:
        raise LookupError(f"{path} belongs to no scope family.")
    return f"{family}:{'read' if method in READ_METHODS else 'write'}"


def get_operator_permission(permission):
    """Return the operators' permission for what a customer needs this permission for."""
    family, _, verb = permission.partition(".")
    if not verb:
        return permission
    return validate_permission(f"admin:{OPERATOR_FAMILY.get(family, family)}:{'read' if verb == 'view' else 'write'}")


def get_operator_permissions(role):
    """Return the permissions of an operator with this role: none for None, and for a role that does not exist."""
    if role is None or role in OPERATOR_ROLES:
        return OPERATOR_ROLES.get(role, frozenset())
    granted = operator_roles.find_permissions(role)
    return frozenset() if granted is None else OPERATOR_READ_PERMISSIONS | granted


def has_operator_permission(role, permission):
    """Return whether an operator with this role has the permission. The role None means no operator."""
    granted = get_operator_permissions(role)
    return bool(granted) if permission == ANY_ADMIN else permission in granted


def may_open_consoles(role):
    """Return whether an operator with this role may open consoles of all instances."""
    return has_operator_permission(role, "admin:instances:write")
