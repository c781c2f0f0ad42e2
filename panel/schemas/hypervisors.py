"""Hypervisors, their groups and storages in the API."""

import re
from urllib.parse import parse_qsl, urlsplit

from marshmallow import fields, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Int, Name, Number, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.constants import HYPERVISOR_DRIVERS, HYPERVISOR_STATUSES
from panel.schemas.hypervisor_group_settings import GroupSettingsIn, GroupSettingsOut

LIBVIRT_SCHEMES = ("qemu", "qemu+tls", "qemu+ssh", "qemu+tcp", "qemu+unix", "qemu+libssh", "qemu+libssh2")
URI_OPTIONS_PATTERN = re.compile(
    r"auth|keyfile|known_hosts|known_hosts_verify|mode|name|no_tty|no_verify|pkipath|proxy|socket|sshauth|tls_priority"
)
"""Permitted options of a libvirt URI. `command` and `netcat` are excluded, because they run arbitrary programs."""
URI_HOST_PATTERN = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:_-]*", re.ASCII)
FOLDER_RULE = validate.Regexp(
    r"\A(/[A-Za-z0-9._-]*[A-Za-z0-9_-])+\Z", error=message("Must be a directory such as /var/lib/panel/disks.")
)
SLUG_RULE = validate.Regexp(
    r"(?i)\A[a-z0-9][a-z0-9._-]*\Z", error=message("Only letters, digits, dots, hyphens and underscores.")
)
COUNTRY_RULE = validate.Regexp(r"\A([A-Z]{2})?\Z", error=message("Must be a two-letter country code, such as DE."))


def uri_error(driver, uri):
    """Return why a node's URI cannot be used, as a sentence, or None."""
    try:
        parts = urlsplit(uri)
        host, user, password, _ = parts.hostname, parts.username, parts.password, parts.port
    except ValueError:
        return message("Is not a valid URI.")
    if driver == "simulated":
        error = message("The URI of a simulated hypervisor must start with simulated://.")
        return None if parts.scheme == "simulated" else error
    if parts.scheme not in LIBVIRT_SCHEMES:
        schemes = ", ".join(f"{scheme}://" for scheme in LIBVIRT_SCHEMES)
        return message("The URI of a libvirt hypervisor must start with one of {schemes}.", schemes=schemes)
    if password is not None:
        return message("Must not contain a password. Use keys or certificates.")
    if parts.path not in ("/system", "/session"):
        return message("Must end with /system, such as qemu+ssh://root@node-1/system.")
    if any(part and not URI_HOST_PATTERN.fullmatch(part) for part in (host, user)):
        return message("The host or user name is not valid.")
    unknown = [
        name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if not URI_OPTIONS_PATTERN.fullmatch(name)
    ]
    return message("The option {option} is not allowed.", option=unknown[0]) if unknown else None


class GroupRef(Out):
    id = fields.String(**describe("Group id.", EXAMPLE_ID))
    name = fields.String(**describe("Unique short name.", "fsn1"))


class HypervisorGroupIn(GroupSettingsIn):
    name = Name(maximum=64, required=True, **describe("Unique short name.", "fsn1"))
    display_name = Name(**describe("Name shown to customers. Defaults to `name`.", "Falkenstein"))
    country = Text(rules=[COUNTRY_RULE], **describe("ISO 3166 country code, or empty.", "DE"))
    plan_groups = fields.List(
        Text(maximum=36),
        validate=validate.Length(max=200),
        **describe("Ids of the plan groups offered in this location.", [EXAMPLE_ID]),
    )


class HypervisorGroupPatch(Patch, HypervisorGroupIn):
    name = Name(maximum=64, **describe("Unique short name.", "fsn1"))


class HypervisorGroupOut(GroupSettingsOut):
    id = fields.String(**describe("Group id, used as `location_id` to create an instance.", EXAMPLE_ID))
    name = fields.String(**describe("Unique short name.", "fsn1"))
    display_name = fields.String(**describe("Name shown to customers.", "Falkenstein"))
    country = fields.String(**describe("ISO 3166 country code, or empty.", "DE"))
    public = fields.Boolean(**describe("Whether all customers can select it, or only accounts with a grant.", True))
    is_available = fields.Boolean(**describe("Whether new instances can be created here at the moment.", True))
    plan_groups = fields.List(fields.Nested(GroupRef), **describe("Plan groups offered in this location."))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class StorageRow(Out):
    id = fields.String(**describe("Storage id.", EXAMPLE_ID))
    hypervisor_id = fields.String(**describe("The hypervisor.", EXAMPLE_ID))
    name = fields.String(**describe("Name, unique on the hypervisor.", "default"))
    path = fields.String(**describe("Directory on the hypervisor.", "/var/lib/panel/disks"))
    enabled = fields.Boolean(**describe("Whether new disks can be placed on it.", True))
    overcommit = fields.Float(**describe("Overcommit factor: how many times its capacity can be allocated.", 1.0))
    capacity = fields.Integer(**describe("Capacity in bytes, as last reported.", 1099511627776))
    free = fields.Integer(**describe("Free space in bytes, as last reported.", 549755813888))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class StorageOut(StorageRow):
    hypervisor = fields.Nested(GroupRef, **describe("The hypervisor."))
    promised = fields.Integer(attribute="allocated", **describe("GiB allocated to disks.", 240))


class StorageMetricsOut(Out):
    status = fields.String(**describe("`up`, `stale`, `unknown` or `down`: that of the hypervisor.", "up"))
    seen_at = Time(allow_none=True, **describe("When the hypervisor last responded.", "2026-01-02T03:04:05.678Z"))
    capacity = fields.Integer(**describe("Capacity in bytes, as last reported.", 1099511627776))
    free = fields.Integer(**describe("Free space in bytes, as last reported.", 549755813888))
    used = fields.Integer(**describe("Used space in bytes, also by other files.", 549755813888))
    used_percent = fields.Float(**describe("Used space in percent; 0 if nothing was reported yet.", 50.0))
    allocatable = fields.Integer(**describe("GiB that can be allocated, including overcommit.", 1024))
    allocated = fields.Integer(**describe("GiB allocated to disks.", 240))
    allocated_percent = fields.Float(**describe("Allocated space in percent of what can be allocated.", 23.44))


class StorageIn(In):
    hypervisor_id = Text(maximum=36, required=True, **describe("The hypervisor.", EXAMPLE_ID))
    name = Name(maximum=64, rules=[SLUG_RULE], required=True, **describe("Name, unique on the hypervisor.", "ssd"))
    path = Text(
        rules=[FOLDER_RULE],
        required=True,
        **describe("Directory on the hypervisor. It is created if necessary.", "/srv/ssd"),
    )
    enabled = Bool(**describe("Whether new disks can be placed on it.", True))
    overcommit = Number(0.1, 100, **describe("Overcommit factor: how many times its capacity can be allocated.", 1.0))


class StoragePatch(Patch):
    enabled = Bool(**describe("Whether new disks can be placed on it.", True))
    overcommit = Number(0.1, 100, **describe("Overcommit factor: how many times its capacity can be allocated.", 1.0))


class Promised(Out):
    instances = fields.Integer(**describe("Number of instances.", 12))
    cpu_cores = fields.Integer(**describe("Allocated CPU cores.", 24))
    ram = fields.Integer(**describe("Allocated memory in MiB.", 24576))
    storage = fields.Integer(**describe("Allocated disk space in GiB.", 240))


class HypervisorRow(Out):
    """A hypervisor in a list. Workers write the fields below `status`, as they last observed them."""

    id = fields.String(**describe("Hypervisor id.", EXAMPLE_ID))
    name = fields.String(**describe("Unique name.", "node-1"))
    hypervisor_group_id = fields.String(attribute="group_id", **describe("Hypervisor group.", EXAMPLE_ID))
    hypervisor_group = fields.Nested(GroupRef, attribute="group", **describe("Hypervisor group."))
    driver = fields.String(validate=validate.OneOf(HYPERVISOR_DRIVERS), **describe("Driver.", "libvirt"))
    uri = fields.String(**describe("Connection URI.", "qemu+ssh://root@node-1/system"))
    network = fields.String(**describe("Name of its libvirt network for public interfaces.", "public"))
    deploy_enabled = fields.Boolean(
        **describe("If false, no new instances are placed on it, neither automatically nor by id.", True)
    )
    locked = fields.Boolean(**describe("If true, no new instances are placed on it.", False))
    maintenance = fields.Boolean(
        **describe("If true, it is in maintenance and no new instances are placed on it.", False)
    )
    closed = fields.String(
        attribute="unschedulable_reason",
        allow_none=True,
        **describe("Reason code why no instance can be placed on it, or null.", None),
    )
    max_tasks = fields.Integer(**describe("Maximum number of concurrent tasks.", 4))
    cpu_overcommit = fields.Float(**describe("CPU overcommit factor: how many times its cores can be allocated.", 4.0))
    memory_overcommit = fields.Float(
        **describe("Memory overcommit factor: how many times its memory can be allocated.", 1.0)
    )
    status = fields.String(validate=validate.OneOf(HYPERVISOR_STATUSES), **describe("Connection status.", "up"))
    status_detail = fields.String(allow_none=True, **describe("Error message if it does not respond.", None))
    seen_at = Time(allow_none=True, **describe("When it last responded.", "2026-01-02T03:04:05.678Z"))
    version = fields.String(allow_none=True, **describe("Versions of libvirt and QEMU.", "libvirt 9.0.0, QEMU 7.2.0"))
    cpu_cores = fields.Integer(**describe("CPU cores of the host.", 32))
    memory_mb = fields.Integer(**describe("Memory of the host in MiB.", 131072))
    accelerated = fields.Boolean(**describe("Whether guests use hardware acceleration.", True))
    acceleration_note = fields.String(
        allow_none=True, **describe("How hardware acceleration was detected.", "A guest ran under KVM.")
    )
    bandwidth_limits = fields.Boolean(**describe("Whether it can enforce port speeds.", True))
    address_filters = fields.Boolean(**describe("Whether it can prevent IP spoofing by guests.", True))
    tpm = fields.Boolean(**describe("Whether it supports TPMs for instances.", True))
    secure_boot = fields.Boolean(**describe("Whether it supports secure boot for instances.", True))
    promised = fields.Nested(Promised, attribute="allocation", **describe("Resources allocated to its instances."))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class HypervisorOut(HypervisorRow):
    storages = fields.List(fields.Nested(StorageRow), **describe("Storages."))
    strangers = fields.List(
        fields.Dict(),
        attribute="unmanaged_machines",
        **describe("Unmanaged VMs on it: id and name.", []),
    )


class HypervisorQuery(PageQuery):
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})
    status = fields.String(
        validate=validate.OneOf(HYPERVISOR_STATUSES), metadata={"description": "Only hypervisors with this status."}
    )


class HypervisorSettings(In):
    network = Text(
        maximum=64,
        minimum=1,
        rules=[SLUG_RULE],
        **describe("Name of its libvirt network for public interfaces.", "public"),
    )
    deploy_enabled = Bool(**describe("If false, no new instances are placed on it.", True))
    locked = Bool(**describe("If true, no new instances are placed on it.", False))
    maintenance = Bool(**describe("If true, it is in maintenance and no new instances are placed on it.", True))
    max_tasks = Int(1, 64, **describe("Maximum number of concurrent tasks.", 4))
    cpu_overcommit = Number(
        0.1, 100, **describe("CPU overcommit factor: how many times its cores can be allocated.", 4.0)
    )
    memory_overcommit = Number(
        0.1, 100, **describe("Memory overcommit factor: how many times its memory can be allocated.", 1.0)
    )


class HypervisorIn(HypervisorSettings):
    name = Name(maximum=64, required=True, **describe("Unique name.", "node-1"))
    hypervisor_group_id = Text(maximum=36, required=True, **describe("Hypervisor group.", EXAMPLE_ID))
    driver = fields.String(
        load_default="libvirt",
        validate=validate.OneOf(HYPERVISOR_DRIVERS),
        **describe("Driver.", "libvirt"),
    )
    uri = Text(minimum=1, load_default="qemu:///system", **describe("Connection URI.", "qemu+ssh://root@node-1/system"))
    storage_path = Text(
        rules=[FOLDER_RULE],
        load_default="/var/lib/libvirt/images",
        **describe("Directory of its first storage for disks. It is created if necessary.", "/var/lib/libvirt/images"),
    )


class HypervisorPatch(Patch, HypervisorSettings):
    """`{maintenance: true}` alone is enough to take a node out of service."""

    name = Name(maximum=64, **describe("Unique name.", "node-1"))
    hypervisor_group_id = Text(
        maximum=36, **describe("Hypervisor group. Can only be changed while there are no instances on it.", EXAMPLE_ID)
    )
    uri = Text(minimum=1, **describe("Connection URI.", "qemu+ssh://root@node-1/system"))


class InstanceStats(Out):
    total = fields.Integer(**describe("Total number of instances.", 12))
    states = fields.Dict(
        keys=fields.String(), values=fields.Integer(), **describe("Number of instances in each state.", {"running": 10})
    )


class Ipv4Stats(Out):
    used = fields.Integer(**describe("Addresses used by its instances.", 12))
    group_total = fields.Integer(**describe("Addresses in its group.", 253))
    group_available = fields.Integer(**describe("Free addresses in its group.", 240))
