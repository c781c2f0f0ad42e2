"""Instances in the API."""

import zoneinfo

from marshmallow import ValidationError, fields, post_load, validate, validates_schema

from panel.core.messages import get_message, message
from panel.schemas import cloudcfg
from panel.schemas.base import Bool, Hostname, In, Name, Out, PageQuery, Patch, Shape, Text, Time, describe
from panel.schemas.constants import INSTANCE_STATES, KEYMAPS, SUBNET_KINDS
from panel.schemas.forges import ForgeOut
from panel.schemas.tasks import TaskOut
from panel.schemas.topology import TopologyOut

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
TIME_ZONES = frozenset(zoneinfo.available_timezones())


def validate_time_zone(name):
    """Validate a time zone. It is a function, so that the API reference does not list this machine's zones."""
    if name not in TIME_ZONES:
        raise ValidationError(message("Must be a time zone like Europe/Berlin."))


class AddressOut(Out):
    id = fields.String(**describe("Address id.", EXAMPLE_ID))
    ip = fields.String(**describe("The address.", "203.0.113.10"))
    family = fields.Integer(**describe("4 or 6.", 4))
    kind = fields.String(
        validate=validate.OneOf(SUBNET_KINDS),
        **describe("`private`: known only within the location. `routed`: a prefix. Else `public`.", "public"),
    )
    subnet_id = fields.String(**describe("The subnet it belongs to.", EXAMPLE_ID))
    interface_id = fields.String(allow_none=True, **describe("The interface that holds it.", EXAMPLE_ID))
    is_primary = fields.Boolean(**describe("Whether the instance is known by it.", True))
    rdns = fields.String(allow_none=True, **describe("The name wanted for reverse DNS.", "shop.example.com"))


class PrefixOut(Out):
    id = fields.String(**describe("Prefix id.", EXAMPLE_ID))
    prefix = fields.String(attribute="ip", **describe("The network.", "2001:db8:0:1::/64"))
    subnet_id = fields.String(**describe("The subnet it belongs to.", EXAMPLE_ID))
    interface_id = fields.String(allow_none=True, **describe("The interface that it is routed to.", EXAMPLE_ID))


class InterfaceOut(Out):
    id = fields.String(**describe("Interface id.", EXAMPLE_ID))
    instance_id = fields.String(**describe("The instance.", EXAMPLE_ID))
    mac = fields.String(**describe("Hardware address.", "52:54:0a:1b:2c:3d"))
    kind = fields.String(**describe("`public` or `private`.", "public"))
    port_speed = fields.Integer(**describe("Mbit/s each way; 0 is unlimited.", 1000))
    used_bandwidth = fields.Float(**describe("GB of the current billing period, both ways.", 1.25))
    off = fields.String(
        attribute="disconnect_reason",
        allow_none=True,
        **describe("Why it is cut off: `traffic` (the allowance is used up), `operator`; else null.", None),
    )
    addresses = fields.List(fields.Nested(AddressOut), **describe("Its addresses."))


class DiskOut(Out):
    id = fields.String(**describe("Disk id.", EXAMPLE_ID))
    instance_id = fields.String(**describe("The instance.", EXAMPLE_ID))
    name = fields.String(**describe("What the node calls it.", "h10000001-0.qcow2"))
    size = fields.Integer(**describe("GiB.", 20))
    is_primary = fields.Boolean(**describe("Whether the operating system is on it.", True))
    attached = fields.Boolean(**describe("Whether the machine has it.", True))


class InstanceRow(Out):
    """An instance in a list."""

    id = fields.String(**describe("Instance id.", EXAMPLE_ID))
    name = fields.String(**describe("The platform's own name for it. Never changes.", "h10000001"))
    display_name = fields.String(**describe("The customer's label.", "Shop front"))
    hostname = fields.String(**describe("Host name of the guest.", "shop.example.com"))
    status = fields.Integer(**describe("The older word: 0 stopped, 1 running, 2 suspended.", 1))
    state = fields.String(validate=validate.OneOf(INSTANCE_STATES), **describe("Where it is in its life.", "running"))
    deployed = fields.Boolean(**describe("Whether it has an operating system.", True))
    task_running = fields.Boolean(**describe("Whether a task of it is queued or runs.", False))
    last_error = fields.String(allow_none=True, **describe("Why the last deploy failed, or what is wrong now.", None))
    notes = fields.String(allow_none=True, **describe("Free text.", "Behind the load balancer"))
    tags = fields.List(fields.String(), **describe("Its tags, sorted.", ["prod", "web"]))
    location_id = fields.String(attribute="group_id", **describe("Location.", EXAMPLE_ID))
    location = Shape(
        "Location",
        {
            "id": ("group_id", describe("Location id.", EXAMPLE_ID)),
            "name": ("location_name", describe("What people call it.", "Falkenstein")),
        },
        **describe("Where it is."),
    )
    project_id = fields.String(allow_none=True, **describe("The project it is in.", None))
    plan_id = fields.String(**describe("Plan.", EXAMPLE_ID))
    image_id = fields.String(allow_none=True, **describe("Image it was made from.", EXAMPLE_ID))
    cpu_cores = fields.Integer(**describe("Processor cores.", 2))
    ram = fields.Integer(**describe("MiB of memory.", 2048))
    storage = fields.Integer(**describe("GiB of the first disk.", 20))
    bandwidth = fields.Integer(**describe("GB of traffic a month; 0 is unlimited.", 1000))
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
    protection_enabled = fields.Boolean(**describe("While true, reinstall and destroy are refused.", False))
    suspended_reason = fields.String(allow_none=True, **describe("`user`, `admin` or `network`.", None))
    created_at = Time(**describe("When it was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class InstanceOut(InstanceRow):
    """Everything about an instance."""

    pending_cpu_cores = fields.Integer(
        allow_none=True, **describe("Processor cores that the guest gets at its next start; null: it has them.", None)
    )
    pending_ram = fields.Integer(
        allow_none=True, **describe("MiB of memory that the guest gets at its next start; null: it has them.", None)
    )
    iso_id = fields.String(allow_none=True, **describe("The ISO in the first optical drive.", None))
    iso_url = fields.String(allow_none=True, **describe("Where that ISO is from.", None))
    secondary_iso_id = fields.String(allow_none=True, **describe("The ISO in the second optical drive.", None))
    secondary_iso_url = fields.String(allow_none=True, **describe("Where that ISO is from.", None))
    topology = fields.Nested(
        TopologyOut,
        attribute="chosen_topology",
        allow_none=True,
        **describe("How its processors look to the guest, if chosen."),
    )
    topology_pending = fields.Boolean(**describe("Whether the guest has that at its next start only.", False))
    boot = fields.String(**describe("Order of boot devices.", "disk"))
    timezone = fields.String(allow_none=True, **describe("Time zone set at the deploy.", "Europe/Berlin"))
    enable_smtp = fields.Boolean(**describe("Whether it may send mail by port 25.", True))
    enable_vnc = fields.Boolean(**describe("Whether its screen can be opened.", True))
    tpm_enabled = fields.Boolean(**describe("Whether it has a TPM, from its next start on.", False))
    secure_boot_enabled = fields.Boolean(**describe("Whether it starts only what is signed, by UEFI.", False))
    vnc_keymap = fields.String(validate=validate.OneOf(KEYMAPS), **describe("Keyboard of the screen.", "en-us"))
    vnc_password = fields.Constant(
        None, **describe("Always null: each console session has a password of its own.", None)
    )
    primary_interface = fields.Nested(InterfaceOut, allow_none=True, **describe("The first network card."))
    interfaces = fields.List(fields.Nested(InterfaceOut), **describe("Every network card."))
    ipv6_prefixes = fields.List(
        fields.Nested(PrefixOut), attribute="prefixes", **describe("IPv6 networks that are routed to it.")
    )
    disks = fields.List(fields.Nested(DiskOut), **describe("Its disks."))
    tasks = fields.List(fields.Nested(TaskOut), **describe("Its latest tasks, newest first."))
    forges = fields.List(fields.Nested(ForgeOut), **describe("Its live-snapshot sessions, newest first, at most 10."))


class AdminInstanceRow(InstanceRow):
    account_id = fields.String(**describe("The owner.", EXAMPLE_ID))
    owner = fields.String(attribute="owner_email", **describe("The owner's email address.", "ada@example.com"))
    hypervisor_id = fields.String(**describe("The node.", EXAMPLE_ID))
    hypervisor_name = fields.String(**describe("The node's name.", "node-1"))
    power = fields.String(**describe("`on` or `off`, as the node reported it.", "on"))
    power_at = Time(
        attribute="power_reported_at",
        allow_none=True,
        **describe("When the node reported it.", "2026-01-02T03:04:05.678Z"),
    )
    lost = fields.Boolean(attribute="missing_on_node", **describe("Whether the node misses it.", False))


class AdminInstanceOut(AdminInstanceRow, InstanceOut):
    """Everything about an instance, for operators."""


SEARCH_DESCRIPTION = (
    "Words that are in a name or begin an address, and conditions like `name:web state:running -tag:prod ip:10.0. "
    "location:lab plan:S image:debian project:shop`; operators also have `owner:` and `node:`. All must be true, a "
    "minus turns one around, quotes keep spaces together."
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
        maximum=36, required=True, **describe("Where. `hypervisor_group_id` means the same.", EXAMPLE_ID)
    )
    plan_id = Text(maximum=36, required=True, **describe("Which size.", EXAMPLE_ID))
    hostname = Hostname(**describe("Host name of the guest; by default the platform's name.", "shop.example.com"))
    display_name = Name(**describe("A label; by default the host name.", "Shop front"))

    def load(self, data, **options):
        if isinstance(data, dict) and "hypervisor_group_id" in data:
            data = {"location_id": data["hypervisor_group_id"], **data}
            del data["hypervisor_group_id"]
        return super().load(data, **options)


class AdminInstanceIn(InstanceIn):
    user_id = Text(maximum=36, required=True, **describe("The owner.", EXAMPLE_ID))
    hypervisor_id = Text(maximum=36, **describe("The node; by default the one with the most room.", EXAMPLE_ID))
    iso_id = Text(maximum=36, **describe("An ISO to boot from, one that the owner may mount.", EXAMPLE_ID))
    enable_vnc = Bool(**describe("Whether the screen can be opened; by default only with an ISO to boot from.", True))


def boot_order_field(**options):
    return fields.String(
        validate=validate.Regexp(
            r"\A(disk|cdrom|network)(,(disk|cdrom|network)){0,2}\Z",
            error=message("Must be a comma-separated order of disk, cdrom and network."),
        ),
        **options,
        **describe("Order of boot devices; counts at the next start.", "disk"),
    )


class BootOrder(In):
    boot = boot_order_field(required=True)


class InstanceSettings(Patch):
    """Fields that people may edit. Error messages list these names as the writable ones."""

    display_name = Name(**describe("The label.", "Shop front"))
    hostname = Hostname(**describe("Host name; the guest takes it at its next deploy.", "shop.example.com"))
    notes = Text(maximum=65536, lines=True, allow_none=True, **describe("Free text.", "Behind the load balancer"))
    boot = boot_order_field()
    enable_smtp = Bool(**describe("Whether it may send mail by port 25.", True))
    vnc_keymap = fields.String(validate=validate.OneOf(KEYMAPS), **describe("Keyboard of the screen.", "de"))
    protection_enabled = Bool(**describe("While true, reinstall and destroy are refused.", True))


class InstancePatch(InstanceSettings):
    """The same for programs: the public provider sends `""` for names that it does not set."""

    display_name = Name(minimum=0, **describe('The label. `""` leaves it unchanged.', "Shop front"))
    hostname = Hostname(
        empty=True,
        **describe('Host name; the guest takes it at its next deploy. `""` leaves it unchanged.', "shop.example.com"),
    )
    notes = Text(
        maximum=65536, lines=True, allow_none=True, **describe('Free text. `""` and null clear it.', "Behind NAT")
    )

    @post_load
    def drop_empty_names(self, data, **_):
        """Ignore empty names (decision "Empty strings in PATCH")."""
        changes = {field: value for field, value in data.items() if value != ""}
        return changes | ({"notes": None} if data.get("notes") == "" else {})


class Rename(In):
    display_name = Name(**describe("The label. `name` means the same.", "Shop front"))
    name = Name(**describe("The same as `display_name`.", "Shop front"))

    @validates_schema
    def validate_name_is_given(self, data, **_):
        if not data:
            raise ValidationError(message("A name is needed."), "display_name")

    @post_load
    def normalize_name(self, data, **_):
        return {"display_name": data.get("display_name", data.get("name"))}


class PlanChange(In):
    plan_id = Text(maximum=36, required=True, **describe("The plan to move to.", EXAMPLE_ID))


class NewHostname(In):
    hostname = Hostname(required=True, **describe("The host name.", "shop.example.com"))


def key_ids_field(**options):
    return fields.List(Text(maximum=36), validate=validate.Length(max=100), **options)


class DeployIn(In):
    image_id = Text(maximum=36, required=True, **describe("What to install.", EXAMPLE_ID))
    hostname = Hostname(**describe("Host name of the guest; by default the instance's.", "shop.example.com"))
    ssh_keys = key_ids_field(**describe("Ids of SSH keys that may sign in as root.", [EXAMPLE_ID]))
    ssh_key_id = fields.Raw(
        **describe("One id or several: the same as `ssh_keys`, which wins when both are sent.", EXAMPLE_ID)
    )
    password = Text(
        maximum=128,
        minimum=8,
        load_default=None,
        allow_none=True,
        **describe("Password of root.", "correct horse battery"),
    )
    cloudcfg = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(max=65536),
        **describe("Further cloud-init configuration (YAML). What it sets wins.", "package_update: true"),
    )
    user_scripts = key_ids_field(
        **describe(
            "Ids of user scripts that run at the first boot, in this order, after `cloudcfg`'s commands.", [EXAMPLE_ID]
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

    image_id = Text(
        maximum=36, allow_none=True, **describe("What to install; by default what it was made from.", EXAMPLE_ID)
    )
