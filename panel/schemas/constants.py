"""Words that are used both in the API and in rows."""

from panel.core.messages import message

PASSWORD_MIN_LENGTH = 12
PASSWORD_MAX_LENGTH = 1024
MAX_FILTER_PARAMETERS = 50
"""Values in the address of a list that a saved filter keeps."""
INSTANCE_STATES = ("migrating", "pending", "suspended", "running", "stopped")
TASK_STATUSES = ("pending", "queued", "running", "completed", "failed", "cancelled")
# fmt: off
KEYMAPS = (
    "ar", "cz", "da", "de", "de-ch", "en-gb", "en-us", "es", "et", "fi", "fo", "fr", "fr-be", "fr-ca", "fr-ch", "hr",
    "hu", "is", "it", "ja", "lt", "lv", "mk", "nl", "no", "pl", "pt", "pt-br", "ru", "sl", "sv", "th", "tr",
)
# fmt: on
IMAGE_PURPOSES = (
    "general",
    "managed_database",
    "kubernetes_worker",
    "kubernetes_control_plane",
    "vpn_gateway",
    "load_balancer",
    "user",
)
HYPERVISOR_DRIVERS = ("libvirt", "simulated")
HYPERVISOR_STATUSES = ("unknown", "up", "down")
ADDRESS_USES = ("free", "used", "reserved")
SUBNET_KINDS = ("public", "private", "routed")
OVERAGE_POLICIES = ("none", "network", "instance")
RULE_DIRECTIONS = ("ingress", "egress")
RULE_PROTOCOLS = ("tcp", "udp", "icmp", "icmpv6", "all")
IP_VERSIONS = ("ipv4", "ipv6")
SCOPE_FAMILIES = {
    "instances": message("Instances: ordering, power, backups, consoles, tasks"),
    "vpcs": message("Private networks and their subnets"),
    "load_balancers": message("Load balancers"),
    "databases": message("Managed databases"),
    "s3_buckets": message("Object storage: buckets and their keys"),
    "ssh_keys": message("SSH keys"),
    "kubernetes": message("Kubernetes clusters"),
    "images": message("Images"),
    "certificates": message("Certificates"),
    "microvm": message("Micro VMs, their images and keys"),
    "webhooks": message("Webhook subscriptions and deliveries"),
    "metrics": message("Metrics for scraping"),
    "account": message("Profile, team, API tokens, usage"),
    "volumes": message("Volumes"),
    "isos": message("ISO images"),
    "dns_zones": message("DNS zones and records"),
    "nat_gateways": message("NAT gateways"),
    "vpn_gateways": message("VPN gateways and their peers"),
    "scaling_groups": message("Scaling groups"),
    "security_groups": message("Security groups and their rules"),
    "ip_sets": message("IP sets for firewall rules"),
    "static_ips": message("Static IP addresses"),
    "user_scripts": message("Scripts that run on new instances"),
    "projects": message("Projects"),
    "backup_policies": message("Backup policies"),
    "monitoring": message("Alert rules and notification channels"),
}
"""The scope families (IDT-22, and one for each resource of the panel's own) and what each permits."""
SCOPES = tuple(f"{family}:{verb}" for family in SCOPE_FAMILIES for verb in ("read", "write"))
"""All scopes of tokens. `:write` does not include `:read`."""
OPERATOR_ROLES = ("full", "support", "read_only")
"""The built-in roles of operators."""
MAX_OPERATOR_ROLE_NAME = 16
GRANTABLE_OPERATOR_PERMISSIONS = {
    "admin:accounts:write": message("Customers, their teams, sessions and limits"),
    "admin:billing:write": message("Credit, charges and resource packs"),
    "admin:catalog:write": message("Plans, plan groups and volume plans"),
    "admin:hypervisors:write": message("Hypervisors, locations, storage and backup destinations"),
    "admin:images:write": message("Images and ISOs"),
    "admin:instances:write": message("Instances, their consoles, backups and alert rules"),
    "admin:ip_sets:write": message("IP sets"),
    "admin:microvm:write": message("Micro VMs and their images"),
    "admin:security_groups:write": message("Security groups"),
    "admin:settings:write": message("Settings, announcements, mails and branding"),
    "admin:subnets:write": message("Subnets and addresses"),
    "admin:tasks:write": message("Tasks and failed jobs"),
    "admin:volumes:write": message("Volumes"),
}
"""What a role of operators may permit beside seeing everything, with descriptions. `operators` and `tokens` are
missing, because these give and take the access of others."""
MEMBER_REACHES = ("all", "projects", "chosen")
ACCOUNT_LIMITS = {
    "max_certificates": message("Certificates"),
    "max_dns_zones": message("DNS zones"),
    "max_serverless_apps": message("Micro VMs with a public address"),
    "max_kubernetes_clusters": message("Kubernetes clusters"),
    "max_kubernetes_nodes_per_cluster": message("Nodes of one Kubernetes cluster"),
    "max_kubernetes_snapshots_per_cluster": message("Snapshots of one Kubernetes cluster"),
}
"""Limits that an operator may set for one account (OTH-01): columns of accounts, and what each counts."""
