"""Words that are on the wire and in rows alike."""

STATES = ("migrating", "pending", "suspended", "running", "stopped")
TASK_STATUSES = ("pending", "queued", "running", "completed", "failed", "cancelled")
# fmt: off
KEYMAPS = (
    "ar", "cz", "da", "de", "de-ch", "en-gb", "en-us", "es", "et", "fi", "fo", "fr", "fr-be", "fr-ca", "fr-ch", "hr",
    "hu", "is", "it", "ja", "lt", "lv", "mk", "nl", "no", "pl", "pt", "pt-br", "ru", "sl", "sv", "th", "tr",
)
# fmt: on
PURPOSES = (
    "general",
    "managed_database",
    "kubernetes_worker",
    "kubernetes_control_plane",
    "vpn_gateway",
    "load_balancer",
    "user",
)
DRIVERS = ("libvirt", "simulated")
HYPERVISOR_STATUSES = ("unknown", "up", "down")
ADDRESS_USES = ("free", "used", "reserved")
