"""Labels of values that rows hold, for operators' pages."""

from panel.web.translation import lazy_gettext

ADDRESS_USES = {
    "free": lazy_gettext("Free"),
    "used": lazy_gettext("In use"),
    "reserved": lazy_gettext("Reserved"),
}
FULL_READ_REASONS = {
    "first_backup": lazy_gettext("The first backup"),
    "requested": lazy_gettext("Requested"),
    "backup_mode": lazy_gettext("The location's mode is full"),
    "chain_length": lazy_gettext("The policy's limit of incremental backups was reached"),
    "chain_reset": lazy_gettext("The chain was reset"),
    "no_checkpoint": lazy_gettext("The hypervisor does not know the last backup"),
    "broken_bitmap": lazy_gettext("The record of changes was damaged"),
    "stopped": lazy_gettext("No guest was running"),
    "new_disk": lazy_gettext("The disk is new"),
    "missing_chunks": lazy_gettext("Content was missing in the destination"),
    "previous_missing": lazy_gettext("The last backup was deleted"),
}
"""Why a backup has read a disk completely."""
HYPERVISOR_STATUSES = {
    "unknown": lazy_gettext("Unknown"),
    "up": lazy_gettext("Up"),
    "down": lazy_gettext("Down"),
}
IMAGE_PURPOSES = {
    "general": lazy_gettext("General"),
    "managed_database": lazy_gettext("Managed database"),
    "kubernetes_worker": lazy_gettext("Kubernetes worker"),
    "kubernetes_control_plane": lazy_gettext("Kubernetes control plane"),
    "vpn_gateway": lazy_gettext("VPN gateway"),
    "load_balancer": lazy_gettext("Load balancer"),
    "user": lazy_gettext("Custom image"),
}
IMAGE_STATUSES = {
    "available": lazy_gettext("Available"),
    "creating": lazy_gettext("Creating"),
    "downloading": lazy_gettext("Downloading"),
    "error": lazy_gettext("Failed"),
}
INSTANCE_STATES = {
    "migrating": lazy_gettext("Migrating"),
    "pending": lazy_gettext("Pending"),
    "suspended": lazy_gettext("Suspended"),
    "running": lazy_gettext("Running"),
    "stopped": lazy_gettext("Stopped"),
}
MIGRATION_STATUSES = {
    "active": lazy_gettext("In progress"),
    "completed": lazy_gettext("Completed"),
    "failed": lazy_gettext("Failed"),
    "cancelled": lazy_gettext("Cancelled"),
}
PERSON_KINDS = {
    "owner": lazy_gettext("Owner"),
    "member": lazy_gettext("Team member"),
    "operator": lazy_gettext("Operator"),
    "admin_token": lazy_gettext("Admin token"),
    "billing_token": lazy_gettext("Billing token"),
    "command_line": lazy_gettext("Command line"),
    "nobody": lazy_gettext("Not signed in"),
}
OPERATOR_ROLES = {
    "full": lazy_gettext("Full access"),
    "support": lazy_gettext("Support"),
    "read_only": lazy_gettext("Read only"),
}
OPERATOR_ROLE_DESCRIPTIONS = {
    "full": lazy_gettext("Can do everything."),
    "support": lazy_gettext("Can view everything and manage customers, their instances and tasks."),
    "read_only": lazy_gettext("Can view everything but change nothing."),
}
