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
    r"\A(/[A-Za-z0-9._-]*[A-Za-z0-9_-])+\Z", error=message("Must be a folder like /var/lib/panel/disks.")
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
        return message("Is not a valid address.")
    if driver == "simulated":
        error = message("The address of a simulated hypervisor begins with simulated://.")
        return None if parts.scheme == "simulated" else error
    if parts.scheme not in LIBVIRT_SCHEMES:
        schemes = ", ".join(f"{scheme}://" for scheme in LIBVIRT_SCHEMES)
        return message("The address of a libvirt hypervisor begins with one of {schemes}.", schemes=schemes)
    if password is not None:
        return message("Must not contain a password: sign in with keys or certificates.")
    if parts.path not in ("/system", "/session"):
        return message("Must end in /system, like qemu+ssh://root@node-1/system.")
    if any(part and not URI_HOST_PATTERN.fullmatch(part) for part in (host, user)):
        return message("The host or user name is not valid.")
    unknown = [
        name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if not URI_OPTIONS_PATTERN.fullmatch(name)
    ]
    return message("May not use the option {option}.", option=unknown[0]) if unknown else None


class GroupRef(Out):
    id = fields.String(**describe("Group id.", EXAMPLE_ID))
    name = fields.String(**describe("A short name, unique.", "fsn1"))


class HypervisorGroupIn(GroupSettingsIn):
    name = Name(maximum=64, required=True, **describe("A short name, unique.", "fsn1"))
    display_name = Name(**describe("What customers see; by default the name.", "Falkenstein"))
    country = Text(rules=[COUNTRY_RULE], **describe("ISO 3166 code, or empty.", "DE"))
    plan_groups = fields.List(
        Text(maximum=36),
        validate=validate.Length(max=200),
        **describe("Ids of the plan groups that are offered here.", [EXAMPLE_ID]),
    )


class HypervisorGroupPatch(Patch, HypervisorGroupIn):
    name = Name(maximum=64, **describe("A short name, unique.", "fsn1"))


class HypervisorGroupOut(GroupSettingsOut):
    id = fields.String(**describe("Group id: the `location_id` of a create.", EXAMPLE_ID))
    name = fields.String(**describe("A short name, unique.", "fsn1"))
    display_name = fields.String(**describe("What customers see.", "Falkenstein"))
    country = fields.String(**describe("ISO 3166 code, or empty.", "DE"))
    public = fields.Boolean(**describe("Whether every customer may choose it, or only accounts with a grant.", True))
    is_available = fields.Boolean(**describe("Whether a machine can be placed here now.", True))
    plan_groups = fields.List(fields.Nested(GroupRef), **describe("The plan groups that are offered here."))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class StorageRow(Out):
    id = fields.String(**describe("Storage id.", EXAMPLE_ID))
    hypervisor_id = fields.String(**describe("The hypervisor it is on.", EXAMPLE_ID))
    name = fields.String(**describe("Its name on that hypervisor.", "default"))
    path = fields.String(**describe("The folder on the hypervisor.", "/var/lib/panel/disks"))
    enabled = fields.Boolean(**describe("Whether new disks may be placed there.", True))
    overcommit = fields.Float(**describe("How many times its capacity may be promised.", 1.0))
    capacity = fields.Integer(**describe("Bytes, as the hypervisor last reported.", 1099511627776))
    free = fields.Integer(**describe("Bytes, as the hypervisor last reported.", 549755813888))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class StorageOut(StorageRow):
    hypervisor = fields.Nested(GroupRef, **describe("The hypervisor it is on."))
    promised = fields.Integer(attribute="allocated", **describe("GiB of the disks that are there.", 240))


class StorageIn(In):
    hypervisor_id = Text(maximum=36, required=True, **describe("The hypervisor it is on.", EXAMPLE_ID))
    name = Name(maximum=64, rules=[SLUG_RULE], required=True, **describe("Unique on the hypervisor.", "ssd"))
    path = Text(rules=[FOLDER_RULE], required=True, **describe("A folder on the hypervisor; it is made.", "/srv/ssd"))
    enabled = Bool(**describe("Whether new disks may be placed there.", True))
    overcommit = Number(0.1, 100, **describe("How many times its capacity may be promised.", 1.0))


class StoragePatch(Patch):
    enabled = Bool(**describe("Whether new disks may be placed there.", True))
    overcommit = Number(0.1, 100, **describe("How many times its capacity may be promised.", 1.0))


class Promised(Out):
    instances = fields.Integer(**describe("Machines.", 12))
    cpu_cores = fields.Integer(**describe("Their processor cores.", 24))
    ram = fields.Integer(**describe("MiB of their memory.", 24576))
    storage = fields.Integer(**describe("GiB of their disks.", 240))


class HypervisorRow(Out):
    """A hypervisor in a list. Workers write the fields below `status`, as they last observed them."""

    id = fields.String(**describe("Hypervisor id.", EXAMPLE_ID))
    name = fields.String(**describe("Its name, unique.", "node-1"))
    hypervisor_group_id = fields.String(attribute="group_id", **describe("Its group.", EXAMPLE_ID))
    hypervisor_group = fields.Nested(GroupRef, attribute="group", **describe("Its group."))
    driver = fields.String(validate=validate.OneOf(HYPERVISOR_DRIVERS), **describe("How it is spoken to.", "libvirt"))
    uri = fields.String(**describe("Where it is reached.", "qemu+ssh://root@node-1/system"))
    network = fields.String(**describe("Its name for the network of public interfaces.", "public"))
    deploy_enabled = fields.Boolean(**describe("Off: no new machines by automatic choice or by name.", True))
    locked = fields.Boolean(**describe("On: no new machines.", False))
    maintenance = fields.Boolean(**describe("On: no new machines, it is being worked on.", False))
    closed = fields.String(
        attribute="unschedulable_reason",
        allow_none=True,
        **describe("The reason why no machine can be placed there.", None),
    )
    max_tasks = fields.Integer(**describe("How many tasks may run there at once.", 4))
    cpu_overcommit = fields.Float(**describe("How many times its cores may be promised.", 4.0))
    memory_overcommit = fields.Float(**describe("How many times its memory may be promised.", 1.0))
    status = fields.String(validate=validate.OneOf(HYPERVISOR_STATUSES), **describe("Whether it answers.", "up"))
    status_detail = fields.String(allow_none=True, **describe("Why it does not.", None))
    seen_at = Time(allow_none=True, **describe("When it last answered.", "2026-01-02T03:04:05.678Z"))
    version = fields.String(allow_none=True, **describe("What runs there.", "libvirt 9.0.0, QEMU 7.2.0"))
    cpu_cores = fields.Integer(**describe("Its processor cores.", 32))
    memory_mb = fields.Integer(**describe("MiB of its memory.", 131072))
    accelerated = fields.Boolean(**describe("Whether guests run with hardware acceleration.", True))
    acceleration_note = fields.String(allow_none=True, **describe("Why, or why not.", "A guest ran under KVM."))
    bandwidth_limits = fields.Boolean(**describe("Whether it can enforce port speeds.", True))
    address_filters = fields.Boolean(**describe("Whether it can stop guests from using others' addresses.", True))
    tpm = fields.Boolean(**describe("Whether it can give machines a TPM.", True))
    secure_boot = fields.Boolean(**describe("Whether it has a firmware with secure boot for machines.", True))
    promised = fields.Nested(Promised, attribute="allocation", **describe("What its instances have been promised."))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class HypervisorOut(HypervisorRow):
    storages = fields.List(fields.Nested(StorageRow), **describe("Its storages."))
    strangers = fields.List(
        fields.Dict(),
        attribute="unmanaged_machines",
        **describe("Machines on it that no instance knows: id and name.", []),
    )


class HypervisorQuery(PageQuery):
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})
    status = fields.String(
        validate=validate.OneOf(HYPERVISOR_STATUSES), metadata={"description": "Only hypervisors with this status."}
    )


class HypervisorSettings(In):
    network = Text(
        maximum=64, minimum=1, rules=[SLUG_RULE], **describe("Its name for the network of public interfaces.", "public")
    )
    deploy_enabled = Bool(**describe("Off: no new machines.", True))
    locked = Bool(**describe("On: no new machines.", False))
    maintenance = Bool(**describe("On: no new machines, it is being worked on.", True))
    max_tasks = Int(1, 64, **describe("How many tasks may run there at once.", 4))
    cpu_overcommit = Number(0.1, 100, **describe("How many times its cores may be promised.", 4.0))
    memory_overcommit = Number(0.1, 100, **describe("How many times its memory may be promised.", 1.0))


class HypervisorIn(HypervisorSettings):
    name = Name(maximum=64, required=True, **describe("Its name, unique.", "node-1"))
    hypervisor_group_id = Text(maximum=36, required=True, **describe("Its group.", EXAMPLE_ID))
    driver = fields.String(
        load_default="libvirt",
        validate=validate.OneOf(HYPERVISOR_DRIVERS),
        **describe("How it is spoken to.", "libvirt"),
    )
    uri = Text(
        minimum=1, load_default="qemu:///system", **describe("Where it is reached.", "qemu+ssh://root@node-1/system")
    )
    storage_path = Text(
        rules=[FOLDER_RULE],
        load_default="/var/lib/libvirt/images",
        **describe("The folder for disks, its first storage; it is made.", "/var/lib/libvirt/images"),
    )


class HypervisorPatch(Patch, HypervisorSettings):
    """`{maintenance: true}` alone is enough to take a node out of service."""

    name = Name(maximum=64, **describe("Its name, unique.", "node-1"))
    hypervisor_group_id = Text(maximum=36, **describe("Its group; only while no instance is on it.", EXAMPLE_ID))
    uri = Text(minimum=1, **describe("Where it is reached.", "qemu+ssh://root@node-1/system"))


class InstanceStats(Out):
    total = fields.Integer(**describe("Instances on it.", 12))
    states = fields.Dict(
        keys=fields.String(), values=fields.Integer(), **describe("How many are in each state.", {"running": 10})
    )


class Ipv4Stats(Out):
    used = fields.Integer(**describe("Addresses that its instances hold.", 12))
    group_total = fields.Integer(**describe("Addresses of its group.", 253))
    group_available = fields.Integer(**describe("Addresses of its group that are free.", 240))
