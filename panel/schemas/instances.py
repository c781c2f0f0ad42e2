"""Instances in the API."""

import zoneinfo

from marshmallow import ValidationError, fields, post_load, validate, validates_schema

from panel.core.messages import get_message, message
from panel.schemas import cloudcfg
from panel.schemas.base import Bool, Hostname, In, Name, Out, PageQuery, Patch, Shape, Text, Time, describe
from panel.schemas.constants import INSTANCE_STATES, KEYMAPS, SUBNET_KINDS
from panel.schemas.forges import ForgeOut
from panel.schemas.tasks import OperatorTaskOut, TaskOut
from panel.schemas.topology import TopologyOut

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
TIME_ZONES = frozenset(zoneinfo.available_timezones() - {"Factory", "localtime"})
"""Without the names that stand for the zone of a machine, and for none."""


def validate_time_zone(name):
    """Validate a time zone. It is a function, so that the API reference does not list this machine's zones."""
    if name not in TIME_ZONES:
        raise ValidationError(message("Must be a time zone such as Europe/Berlin."))


class AddressOut(Out):
    id = fields.String(**describe("Address id.", EXAMPLE_ID))
    ip = fields.String(**describe("The address.", "203.0.113.10"))
    family = fields.Integer(**describe("4 or 6.", 4))
    kind = fields.String(
        validate=validate.OneOf(SUBNET_KINDS),
        **describe("`public`, `private` (reachable only within the location) or `routed` (a prefix).", "public"),
    )
    subnet_id = fields.String(**describe("The subnet it belongs to.", EXAMPLE_ID))
    interface_id = fields.String(allow_none=True, **describe("The interface it is assigned to.", EXAMPLE_ID))
    is_primary = fields.Boolean(**describe("Whether it is the primary address of its family.", True))
    rdns = fields.String(allow_none=True, **describe("Reverse DNS name.", "shop.example.com"))


class PrefixOut(Out):
    id = fields.String(**describe("Prefix id.", EXAMPLE_ID))
    prefix = fields.String(attribute="ip", **describe("The network.", "2001:db8:0:1::/64"))
    subnet_id = fields.String(**describe("The subnet it belongs to.", EXAMPLE_ID))
    interface_id = fields.String(allow_none=True, **describe("The interface it is routed to.", EXAMPLE_ID))


class InterfaceOut(Out):
    id = fields.String(**describe("Interface id.", EXAMPLE_ID))
    instance_id = fields.String(**describe("The instance.", EXAMPLE_ID))
    mac = fields.String(**describe("MAC address.", "52:54:0a:1b:2c:3d"))
    kind = fields.String(**describe("`public` or `private`.", "public"))
    port_speed = fields.Integer(**describe("Port speed in Mbit/s per direction; 0 means unlimited.", 1000))
    used_bandwidth = fields.Float(**describe("Traffic of the current billing period in GB, both directions.", 1.25))
    off = fields.String(
        attribute="disconnect_reason",
        allow_none=True,
        **describe(
            "Why it is disconnected: `traffic` (the allowance is used up) or `operator`; null if it is connected.", None
        ),
    )
    addresses = fields.List(fields.Nested(AddressOut), **describe("Its addresses."))


class DiskOut(Out):
    id = fields.String(**describe("Disk id.", EXAMPLE_ID))
    instance_id = fields.String(**describe("The instance.", EXAMPLE_ID))
    name = fields.String(**describe("Name on the hypervisor.", "h10000001-0.qcow2"))
    size = fields.Integer(**describe("Size in GiB.", 20))
    is_primary = fields.Boolean(**describe("Whether it contains the operating system.", True))
    attached = fields.Boolean(**describe("Whether it is attached.", True))


class InstanceRow(Out):
    """An instance in a list."""

    id = fields.String(**describe("Instance id.", EXAMPLE_ID))
    name = fields.String(**describe("Name assigned by the platform. Never changes.", "h10000001"))
    display_name = fields.String(**describe("Display name set by the customer.", "Shop front"))
    hostname = fields.String(**describe("Host name of the guest.", "shop.example.com"))
    status = fields.Integer(**describe("Numeric status, for older clients: 0 stopped, 1 running, 2 suspended.", 1))
    state = fields.String(validate=validate.OneOf(INSTANCE_STATES), **describe("Current state.", "running"))
    deployed = fields.Boolean(**describe("Whether it has an operating system.", True))
    task_running = fields.Boolean(**describe("Whether a task is queued or running.", False))
    last_error = fields.String(
        allow_none=True, **describe("Why the last deployment failed, or the current problem.", None)
    )
    notes = fields.String(allow_none=True, **describe("Free text.", "Behind the load balancer"))
    tags = fields.List(fields.String(), **describe("Its tags, sorted.", ["prod", "web"]))
    location_id = fields.String(attribute="group_id", **describe("Location id.", EXAMPLE_ID))
    location = Shape(
        "Location",
        {
            "id": ("group_id", describe("Location id.", EXAMPLE_ID)),
            "name": ("location_name", describe("Display name.", "Falkenstein")),
        },
        **describe("The location."),
    )
    project_id = fields.String(allow_none=True, **describe("Id of its project.", None))
    plan_id = fields.String(**describe("Plan id.", EXAMPLE_ID))
    image_id = fields.String(allow_none=True, **describe("Image id.", EXAMPLE_ID))
    cpu_cores = fields.Integer(**describe("CPU cores.", 2))
    ram = fields.Integer(**describe("Memory in MiB.", 2048))
    storage = fields.Integer(**describe("Size of the first disk in GiB.", 20))
    bandwidth = fields.Integer(**describe("Monthly traffic in GB; 0 means unlimited.", 1000))
    primary_public_ip = Shape(
        "Ipv4",
        {"ip": ("ipv4", describe("The address.", "203.0.113.10"))},
        allow_none=True,
        **describe("The first public IPv4 address."),
    )
    primary_public_ipv6 = Shape(
        "Ipv6",
        {"ip": ("ipv6", describe("The address.", "2001:db8::2"))},
        allow_none=True,
        **describe("The first public IPv6 address."),
    )
    primary_private_ip = Shape(
        "PrivateIpv4",
        {"ip": ("private_ipv4", describe("The address.", "10.20.0.10"))},
        allow_none=True,
        **describe("The first private IPv4 address."),
    )
    protection_enabled = fields.Boolean(
        **describe("Delete protection: if true, reinstall and destroy are refused.", False)
    )
    suspended_reason = fields.String(allow_none=True, **describe("`user`, `admin` or `network`.", None))
    created_at = Time(**describe("When it was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class InstanceOut(InstanceRow):
    """Everything about an instance."""

    pending_cpu_cores = fields.Integer(
        allow_none=True, **describe("CPU cores from the next start; null if there is no pending change.", None)
    )
    pending_ram = fields.Integer(
        allow_none=True, **describe("Memory in MiB from the next start; null if there is no pending change.", None)
    )
    iso_id = fields.String(allow_none=True, **describe("The ISO in the first optical drive.", None))
    iso_url = fields.String(allow_none=True, **describe("URL of that ISO.", None))
    secondary_iso_id = fields.String(allow_none=True, **describe("The ISO in the second optical drive.", None))
    secondary_iso_url = fields.String(allow_none=True, **describe("URL of that ISO.", None))
    topology = fields.Nested(
        TopologyOut,
        attribute="chosen_topology",
        allow_none=True,
        **describe("Custom CPU topology, or null."),
    )
    topology_pending = fields.Boolean(**describe("Whether the topology takes effect at the next start.", False))
    boot = fields.String(**describe("Boot order.", "disk"))
    timezone = fields.String(allow_none=True, **describe("Time zone set by the deployment.", "Europe/Berlin"))
    enable_smtp = fields.Boolean(**describe("Whether outbound SMTP (port 25) is allowed.", True))
    enable_vnc = fields.Boolean(**describe("Whether the VNC console is enabled.", True))
    tpm_enabled = fields.Boolean(**describe("Whether it has a TPM. Takes effect at the next start.", False))
    secure_boot_enabled = fields.Boolean(**describe("Whether UEFI secure boot is enabled.", False))
    vnc_keymap = fields.String(
        validate=validate.OneOf(KEYMAPS), **describe("Keyboard layout of the VNC console.", "en-us")
    )
    vnc_password = fields.Constant(None, **describe("Always null: each console session has its own password.", None))
    primary_interface = fields.Nested(InterfaceOut, allow_none=True, **describe("The first network interface."))
    interfaces = fields.List(fields.Nested(InterfaceOut), **describe("All network interfaces."))
    ipv6_prefixes = fields.List(
        fields.Nested(PrefixOut), attribute="prefixes", **describe("IPv6 prefixes routed to the instance.")
    )
    disks = fields.List(fields.Nested(DiskOut), **describe("Its disks."))
    backup_policy_id = fields.String(allow_none=True, **describe("The backup policy it is attached to.", None))
    tasks = fields.List(fields.Nested(TaskOut), **describe("Its latest tasks, newest first."))
    forges = fields.List(fields.Nested(ForgeOut), **describe("Its live-snapshot sessions, newest first, at most 10."))


class AdminInstanceRow(InstanceRow):
    account_id = fields.String(**describe("The owner.", EXAMPLE_ID))
    owner = fields.String(attribute="owner_email", **describe("Email address of the owner.", "ada@example.com"))
    hypervisor_id = fields.String(**describe("The hypervisor.", EXAMPLE_ID))
    hypervisor_name = fields.String(**describe("Name of the hypervisor.", "node-1"))
    power = fields.String(**describe("`on` or `off`, as last reported by the hypervisor.", "on"))
    power_at = Time(
        attribute="power_reported_at",
        allow_none=True,
        **describe("When the hypervisor reported it.", "2026-01-02T03:04:05.678Z"),
    )
    lost = fields.Boolean(
        attribute="missing_on_node", **describe("Whether its VM is missing on the hypervisor.", False)
    )


class AdminInstanceOut(AdminInstanceRow, InstanceOut):
    """Everything about an instance, for operators."""

    tasks = fields.List(fields.Nested(OperatorTaskOut), **describe("Its latest tasks, newest first."))


SEARCH_DESCRIPTION = (
    "Words that match part of a name or the start of an address, and conditions such as `name:web state:running "
    "-tag:prod ip:10.0. location:lab plan:S image:debian project:shop`; operators can also use `owner:` and `node:`. "
    "All of them must match. A minus sign negates a term; put quotes around a term that contains spaces."
)


class InstanceQuery(PageQuery):
    search = fields.String(validate=validate.Length(max=255), metadata={"description": SEARCH_DESCRIPTION})
    state = fields.String(
        validate=validate.OneOf(INSTANCE_STATES), metadata={"description": "Only instances in this state."}
    )
    project_id = fields.String(
        validate=validate.Length(max=36), metadata={"description": "Only instances in this project."}
    )


class InstanceIn(In):
    location_id = Text(
        maximum=36, required=True, **describe("Location id. `hypervisor_group_id` is an alias.", EXAMPLE_ID)
    )
    plan_id = Text(maximum=36, required=True, **describe("Plan id.", EXAMPLE_ID))
    hostname = Hostname(
        **describe("Host name of the guest. Defaults to the name assigned by the platform.", "shop.example.com")
    )
    display_name = Name(**describe("Display name. Defaults to the host name.", "Shop front"))

    def load(self, data, **options):
        if isinstance(data, dict) and "hypervisor_group_id" in data:
            data = {"location_id": data["hypervisor_group_id"], **data}
            del data["hypervisor_group_id"]
        return super().load(data, **options)


class AdminInstanceIn(InstanceIn):
    user_id = Text(maximum=36, required=True, **describe("The owner.", EXAMPLE_ID))
    hypervisor_id = Text(
        maximum=36, **describe("Hypervisor id. Defaults to the one with the most free capacity.", EXAMPLE_ID)
    )
    iso_id = Text(maximum=36, **describe("ISO to boot from. The owner must be allowed to mount it.", EXAMPLE_ID))
    enable_vnc = Bool(
        **describe("Whether the VNC console is enabled. Defaults to true with a boot ISO, otherwise false.", True)
    )


def boot_order_field(**options):
    return fields.String(
        validate=validate.Regexp(
            r"\A(disk|cdrom|network)(,(disk|cdrom|network)){0,2}\Z",
            error=message("Must be a comma-separated order of disk, cdrom and network."),
        ),
        **options,
        **describe("Boot order. Takes effect at the next start.", "disk"),
    )


class BootOrder(In):
    boot = boot_order_field(required=True)


class InstanceSettings(Patch):
    """Fields that people may edit. Error messages list these names as the writable ones."""

    display_name = Name(**describe("Display name.", "Shop front"))
    hostname = Hostname(**describe("Host name. The guest gets it with the next deployment.", "shop.example.com"))
    notes = Text(maximum=65536, lines=True, allow_none=True, **describe("Free text.", "Behind the load balancer"))
    boot = boot_order_field()
    enable_smtp = Bool(**describe("Whether outbound SMTP (port 25) is allowed.", True))
    vnc_keymap = fields.String(
        validate=validate.OneOf(KEYMAPS), **describe("Keyboard layout of the VNC console.", "de")
    )
    protection_enabled = Bool(**describe("Delete protection: if true, reinstall and destroy are refused.", True))


class InstancePatch(InstanceSettings):
    """The same for programs: the public provider sends `""` for names that it does not set."""

    display_name = Name(minimum=0, **describe('Display name. `""` leaves it unchanged.', "Shop front"))
    hostname = Hostname(
        empty=True,
        **describe(
            'Host name. The guest gets it with the next deployment. `""` leaves it unchanged.', "shop.example.com"
        ),
    )
    notes = Text(
        maximum=65536, lines=True, allow_none=True, **describe('Free text. `""` and null clear it.', "Behind NAT")
    )

    @post_load
    def drop_empty_names(self, data, **_):
        """Ignore empty names (docs/decisions/0017, "Empty strings in PATCH")."""
        changes = {field: value for field, value in data.items() if value != ""}
        return changes | ({"notes": None} if data.get("notes") == "" else {})


class Rename(In):
    display_name = Name(**describe("Display name. `name` is an alias.", "Shop front"))
    name = Name(**describe("Alias of `display_name`.", "Shop front"))

    @validates_schema
    def validate_name_is_given(self, data, **_):
        if not data:
            raise ValidationError(message("A name is required."), "display_name")

    @post_load
    def normalize_name(self, data, **_):
        return {"display_name": data.get("display_name", data.get("name"))}


class PlanChange(In):
    plan_id = Text(maximum=36, required=True, **describe("Id of the new plan.", EXAMPLE_ID))


class NewHostname(In):
    hostname = Hostname(required=True, **describe("The host name.", "shop.example.com"))


def key_ids_field(**options):
    return fields.List(Text(maximum=36), validate=validate.Length(max=100), **options)


class DeployIn(In):
    image_id = Text(maximum=36, required=True, **describe("Image id.", EXAMPLE_ID))
    hostname = Hostname(**describe("Host name of the guest. Defaults to the instance's.", "shop.example.com"))
    ssh_keys = key_ids_field(**describe("Ids of SSH keys that can sign in as root.", [EXAMPLE_ID]))
    ssh_key_id = fields.Raw(
        **describe("One id or a list: same as `ssh_keys`, which takes precedence if both are sent.", EXAMPLE_ID)
    )
    password = Text(
        maximum=128,
        minimum=8,
        load_default=None,
        allow_none=True,
        **describe("Root password.", "correct horse battery"),
    )
    cloudcfg = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(max=65536),
        **describe(
            "Additional cloud-init configuration (YAML). It takes precedence over all other settings.",
            "package_update: true",
        ),
    )
    user_scripts = key_ids_field(
        **describe(
            "Ids of user scripts that run at first boot, in this order, after the commands of `cloudcfg`.", [EXAMPLE_ID]
        )
    )
    timezone = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate_time_zone,
        **describe("Time zone of the guest.", "Europe/Berlin"),
    )

    @validates_schema
    def validate_cloudcfg(self, data, **_):
        try:
            cloudcfg.parse(data.get("cloudcfg"))
        except ValueError as error:
            raise ValidationError(get_message(error), "cloudcfg") from None

    @post_load
    def merge_key_lists(self, data, **_):
        alias = data.pop("ssh_key_id", None)
        if "ssh_keys" not in data and alias is not None:
            data["key_field"] = "ssh_key_id"
            data["ssh_keys"] = alias if isinstance(alias, list) else [alias]
            if not all(isinstance(key, str) for key in data["ssh_keys"]):
                raise ValidationError(message("Must be an id or a list of ids."), "ssh_key_id")
        data["key_ids"] = data.pop("ssh_keys", [])
        return data


class ReinstallIn(DeployIn):
    """The fields of a deploy. Values of the earlier first boot do not apply."""

    image_id = Text(maximum=36, allow_none=True, **describe("Image id. Defaults to the current image.", EXAMPLE_ID))
