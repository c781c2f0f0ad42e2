"""Micro VMs, their images and the nodes' profiles in the API."""

import ipaddress

from marshmallow import ValidationError, fields, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Int, Name, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.subnets import Cidr, Ip

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
MICROVM_STATES = ("starting", "running", "pausing", "paused", "stopping", "stopped", "destroying", "failed")
MICROVM_SNAPSHOT_STATUSES = ("creating", "available", "restoring", "deleting", "failed")
IMAGE_STATUSES = ("building", "available", "failed")
TIMEOUT_ACTIONS = ("kill", "pause")
ORIGINS = ("api", "sandbox")
MAX_PAIRS, MAX_PAIRS_CHARACTERS = 100, 32768
MAX_TAGS = 50
MAX_TIMEOUT_SECONDS = 30 * 24 * 3600
MAX_PLACES = 10_000
MAX_NETWORKS = 100
"""Entries of a list of networks. A node needs some hundredths of a second for each."""
MAX_NAMESERVERS = 3
RANGE_NETWORKS = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
"""Where the addresses of micro VMs may be."""
MIN_RANGE_LENGTH, MAX_RANGE_LENGTH = 16, 28


class Pairs(fields.Dict):
    """A JSON object of texts."""

    def __init__(self, **options):
        keys = Text(minimum=1, maximum=255)
        super().__init__(keys=keys, values=Text(maximum=4096, lines=True), **options)

    def _deserialize(self, value, attr, data, **kwargs):
        pairs = super()._deserialize(value, attr, data, **kwargs)
        if len(pairs) > MAX_PAIRS or sum(len(name) + len(text) for name, text in pairs.items()) > MAX_PAIRS_CHARACTERS:
            raise ValidationError(
                message(
                    "At most {count} entries with {characters} characters.",
                    count=MAX_PAIRS,
                    characters=MAX_PAIRS_CHARACTERS,
                )
            )
        return pairs


class EnvironmentVariables(Pairs):
    """Environment variables, name → value."""

    def _deserialize(self, value, attr, data, **kwargs):
        pairs = super()._deserialize(value, attr, data, **kwargs)
        if invalid := next((name for name in pairs if "=" in name), None):
            raise ValidationError(message("{name} is not the name of an environment variable.", name=invalid))
        return pairs


class NetworkText(Text):
    """An IP address or a network in CIDR notation, converted to the notation of networks."""

    def __init__(self, families=(4, 6), **options):
        super().__init__(maximum=49, **options)
        self.families = families

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise ValidationError(
                message("Only IP addresses and networks in CIDR notation are supported, no names.")
            ) from None
        if network.version not in self.families:
            raise ValidationError(message("Only IPv4 is supported."))
        return str(network)


def networks_field(description, example, families=(4, 6), **options):
    return fields.List(
        NetworkText(families), validate=validate.Length(max=MAX_NETWORKS), **options, **describe(description, [example])
    )


def allow_out_field(**options):
    return networks_field(
        "IPv4 addresses and networks that it may connect to although `deny_out` or no internet access forbids it.",
        "8.8.8.8/32",
        families=(4,),
        **options,
    )


def deny_out_field(**options):
    return networks_field("Addresses and networks that it may not connect to.", "198.41.0.0/24", **options)


class MicrovmPendingOut(Out):
    operation = fields.String(attribute="kind", **describe("What is being done.", "microvm_pause"))
    task_id = fields.String(attribute="id", **describe("The task that does it.", EXAMPLE_ID))


class MicrovmOut(Out):
    id = fields.String(**describe("Micro VM id.", EXAMPLE_ID))
    sandbox_id = fields.String(**describe("Its short id, as in the sandbox API and in host names.", "k3m5q2x7a4bcdefg"))
    name = fields.String(**describe("The customer's name for it.", "worker-1"))
    state = fields.String(
        validate=validate.OneOf(MICROVM_STATES),
        **describe(
            "Where it stands. `starting`, `pausing`, `stopping` and `destroying` last until their task ends.", "running"
        ),
    )
    error = fields.String(allow_none=True, **describe("Why the last attempt failed, or why it stopped.", None))
    location_id = fields.String(attribute="group_id", allow_none=True, **describe("Its location.", EXAMPLE_ID))
    image_id = fields.String(allow_none=True, **describe("The image that it was created from.", EXAMPLE_ID))
    cpu_cores = fields.Integer(**describe("Processor cores.", 1))
    memory_mb = fields.Integer(**describe("MiB of memory.", 512))
    disk_gb = fields.Integer(**describe("GiB of its disk.", 2))
    tags = fields.List(fields.String(), **describe("Its tags, sorted.", ["ci"]))
    metadata = fields.Dict(
        attribute="meta", **describe("What your programs store with it: texts by name.", {"run": "17"})
    )
    origin = fields.String(
        validate=validate.OneOf(ORIGINS),
        **describe("Whether it was created through this API or the `sandbox` API.", "api"),
    )
    started_at = Time(**describe("When it was first started.", EXAMPLE_TIME))
    timeout_seconds = fields.Integer(
        allow_none=True, **describe("Seconds that it runs after a start or resume; null: it does not expire.", 3600)
    )
    expires_at = Time(allow_none=True, **describe("When its time-out ends it. Null while it is paused.", EXAMPLE_TIME))
    on_timeout = fields.String(
        validate=validate.OneOf(TIMEOUT_ACTIONS), **describe("`kill` destroys it then, `pause` pauses it.", "kill")
    )
    internet_access = fields.Boolean(
        attribute="has_internet_access",
        **describe("Whether it has internet access: it was asked for, and the operator allows it there.", True),
    )
    allow_out = fields.List(fields.String(), **describe("Networks that it may connect to in any case.", ["8.8.8.8/32"]))
    deny_out = fields.List(fields.String(), **describe("Networks that it may not connect to.", ["198.41.0.0/24"]))
    pending = fields.Nested(MicrovmPendingOut, allow_none=True, **describe("The operation in progress, or null."))
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))


class AdminMicrovmOut(MicrovmOut):
    account_id = fields.String(**describe("The owner.", EXAMPLE_ID))
    owner = fields.String(attribute="owner_email", **describe("The owner's email address.", "ada@example.com"))
    hypervisor_id = fields.String(allow_none=True, **describe("The hypervisor that it is on.", EXAMPLE_ID))
    storage_id = fields.String(allow_none=True, **describe("The storage of its disk.", EXAMPLE_ID))


class MicrovmUsageOut(Out):
    at = Time(**describe("When it was measured.", EXAMPLE_TIME))
    cpu_percent = fields.Float(**describe("Percent of all its cores.", 12.5))
    memory_used = fields.Float(**describe("MiB of memory in use.", 210.5))
    disk_read_bytes = fields.Float(**describe("Bytes read from its disk, a second.", 4096.0))
    disk_write_bytes = fields.Float(**describe("Bytes written to its disk, a second.", 8192.0))
    disk_read_iops = fields.Float(**describe("Reads from its disk, a second.", 1.0))
    disk_write_iops = fields.Float(**describe("Writes to its disk, a second.", 2.0))


class MicrovmQuery(PageQuery):
    search = Text(
        maximum=255,
        **describe("Part of the name, beginning of the short id, or a pair of the metadata: `run=17`.", "worker"),
    )
    state = fields.String(
        validate=validate.OneOf(MICROVM_STATES), **describe("Only micro VMs in this state.", "running")
    )
    location_id = Text(maximum=36, **describe("Only micro VMs in this location.", EXAMPLE_ID))


class AdminMicrovmQuery(MicrovmQuery):
    hypervisor_id = Text(maximum=36, **describe("Only micro VMs on this hypervisor.", EXAMPLE_ID))


def timeout_field(**options):
    return Int(
        1,
        MAX_TIMEOUT_SECONDS,
        allow_none=True,
        **options,
        **describe("Seconds until it ends by itself; null: it does not.", 3600),
    )


def on_timeout_field(**options):
    return fields.String(
        validate=validate.OneOf(TIMEOUT_ACTIONS),
        **options,
        **describe("What its time-out does: `kill` destroys it, `pause` pauses it.", "kill"),
    )


def tags_field(**options):
    tag = Name(maximum=64)
    return fields.List(tag, validate=validate.Length(max=MAX_TAGS), **options, **describe("Its tags.", ["ci"]))


def metadata_field(**options):
    return Pairs(**options, **describe("What your programs store with it: texts by name.", {"run": "17"}))


class MicrovmIn(In):
    location_id = Text(
        maximum=36,
        **describe("A location of the catalog. Required unless the account's settings have one.", EXAMPLE_ID),
    )
    image_id = Text(
        maximum=36, **describe("A micro VM image. Required unless the account's settings have one.", EXAMPLE_ID)
    )
    name = Name(required=True, **describe("A name for it.", "worker-1"))
    cpu_cores = Int(1, 8, load_default=None, allow_none=True, **describe("Processor cores; else the image's.", 1))
    memory_mb = Int(128, 16384, load_default=None, allow_none=True, **describe("MiB of memory; else the image's.", 512))
    disk_gb = Int(1, 64, load_default=None, allow_none=True, **describe("GiB of its disk; else the image's.", 2))
    tags = tags_field(load_default=())
    metadata = metadata_field(load_default=None, allow_none=True)
    envs = EnvironmentVariables(
        load_default=None,
        allow_none=True,
        **describe(
            "Environment variables of its processes. They are stored encrypted and not shown.", {"MODE": "test"}
        ),
    )
    timeout_seconds = timeout_field()
    on_timeout = on_timeout_field()
    allow_internet_access = Bool(
        load_default=False,
        **describe("Whether it may connect to the internet. Refused where the operator does not allow it.", True),
    )
    allow_out = allow_out_field(load_default=())
    deny_out = deny_out_field(load_default=())


class MicrovmPatch(Patch):
    name = Name(**describe("A name for it.", "worker-1"))
    tags = tags_field()
    metadata = metadata_field()
    timeout_seconds = timeout_field()
    on_timeout = on_timeout_field()
    allow_internet_access = Bool(**describe("Whether it may connect to the internet.", False))
    allow_out = allow_out_field()
    deny_out = deny_out_field()


class MicrovmResume(In):
    timeout_seconds = timeout_field(load_default=None)


class CatalogLocationOut(Out):
    id = fields.String(**describe("Location id: the `location_id` of a create.", EXAMPLE_ID))
    name = fields.String(**describe("A short name, unique.", "fsn1"))
    display_name = fields.String(**describe("What people call it.", "Falkenstein"))
    country = fields.String(**describe("ISO 3166 code.", "DE"))
    available = fields.Boolean(**describe("Whether a micro VM of the smallest size can be created there now.", True))
    internet_access = fields.Boolean(
        **describe("Whether a micro VM created there now could have internet access.", False)
    )
    locked = fields.Boolean(**describe("Whether the location is closed to micro VMs.", False))


class MicrovmImageOut(Out):
    id = fields.String(**describe("Image id: the `image_id` of a create.", EXAMPLE_ID))
    name = fields.String(**describe("A short name.", "sandbox"))
    label = fields.String(**describe("What people call it.", "Sandbox"))
    aliases = fields.List(fields.String(), **describe("Further names.", ["base"]))
    status = fields.String(
        validate=validate.OneOf(IMAGE_STATUSES), **describe("Only `available` ones can be chosen.", "available")
    )
    cpu_cores = fields.Integer(**describe("Processor cores of a micro VM that asks for none.", 1))
    memory_mb = fields.Integer(**describe("MiB of memory of a micro VM that asks for none.", 512))
    disk_gb = fields.Integer(**describe("GiB of disk of a micro VM that asks for none.", 2))
    min_memory_mb = fields.Integer(**describe("MiB of memory that it needs.", 192))
    min_disk_gb = fields.Integer(**describe("GiB of disk that it needs.", 1))
    price = fields.Float(**describe("A month of a micro VM, in the installation's currency.", 2.5))
    is_platform = fields.Boolean(**describe("Whether it is one of the platform's, which cannot be changed.", True))
    size = fields.Integer(attribute="disk_size", **describe("Bytes of its disk as it is stored.", 130023424))
    env_names = fields.List(
        fields.String(), **describe("The names of its environment variables. Their values are not shown.", ["MODE"])
    )
    created_at = Time(**describe("When it was added.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))


class MicrovmSizeOut(Out):
    name = fields.String(**describe("Its name.", "small"))
    cpu_cores = fields.Integer(**describe("Processor cores.", 1))
    memory_mb = fields.Integer(**describe("MiB of memory.", 512))
    disk_gb = fields.Integer(**describe("GiB of disk.", 2))


class MicrovmImageQuery(PageQuery):
    search = Text(maximum=255, **describe("Part of the name.", "sandbox"))


class MicrovmSnapshotOut(Out):
    id = fields.String(**describe("Snapshot id.", EXAMPLE_ID))
    microvm_id = fields.String(**describe("The micro VM.", EXAMPLE_ID))
    name = fields.String(**describe("Its name, unique for the micro VM.", "ready"))
    has_memory = fields.Boolean(**describe("Whether it has the memory: the micro VM ran when it was taken.", True))
    status = fields.String(
        validate=validate.OneOf(MICROVM_SNAPSHOT_STATUSES), **describe("Where it stands.", "available")
    )
    error = fields.String(allow_none=True, **describe("Why the last attempt failed.", None))
    created_at = Time(**describe("When it was asked for.", EXAMPLE_TIME))


class MicrovmSnapshotIn(In):
    name = Name(
        maximum=64,
        minimum=0,
        load_default=None,
        allow_none=True,
        **describe("A name, unique for the micro VM; else `snapshot-1` and so on.", "ready"),
    )


class MicrovmRollback(In):
    snapshot_id = Text(maximum=36, required=True, **describe("The snapshot to return to.", EXAMPLE_ID))


class MicrovmProfileOut(Out):
    id = fields.String(**describe("Profile id.", EXAMPLE_ID))
    hypervisor_id = fields.String(**describe("The hypervisor.", EXAMPLE_ID))
    hypervisor_name = fields.String(attribute="name", **describe("The hypervisor's name.", "node-1"))
    enabled = fields.Boolean(**describe("Off: no new micro VMs are placed on the hypervisor.", True))
    max_microvms = fields.Integer(**describe("Micro VMs at most; 0 is unlimited.", 100))
    max_memory_mb = fields.Integer(**describe("MiB of memory of all together; 0: what the hypervisor has free.", 65536))
    allows_internet_access = fields.Boolean(**describe("Whether micro VMs on it may have internet access.", False))
    address_range = fields.String(**describe("The network of their addresses.", "100.96.0.0/16"))
    nameservers = fields.List(fields.String(), **describe("The name servers that they use.", ["1.1.1.1", "9.9.9.9"]))
    refused_networks = fields.List(
        fields.String(), **describe("Networks that they never reach, besides private ones and subnets.", [])
    )
    created_at = Time(**describe("When it was added.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))


class AddressRange(Cidr):
    """A private or shared IPv4 network for the addresses of micro VMs."""

    example = "100.96.0.0/16"

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        network = ipaddress.ip_network(text)
        is_private = network.version == 4 and any(
            network.subnet_of(ipaddress.ip_network(private)) for private in RANGE_NETWORKS
        )
        if not is_private or not MIN_RANGE_LENGTH <= network.prefixlen <= MAX_RANGE_LENGTH:
            raise ValidationError(message("Must be a private IPv4 network from /16 to /28, such as 100.96.0.0/16."))
        return text


class PublicIp(Ip):
    """An IPv4 address of the internet."""

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        address = ipaddress.ip_address(text)
        if address.version != 4 or not address.is_global:
            raise ValidationError(message("Must be a public IPv4 address: micro VMs cannot reach private addresses."))
        return text


class MicrovmProfileFields(In):
    enabled = Bool(**describe("Off: no new micro VMs are placed on the hypervisor.", True))
    max_microvms = Int(0, MAX_PLACES, **describe("Micro VMs at most; 0 is unlimited.", 100))
    max_memory_mb = Int(**describe("MiB of memory of all together; 0: what the hypervisor has free.", 65536))
    allows_internet_access = Bool(
        **describe("Whether micro VMs on it may have internet access. Only those that are created then get it.", False)
    )
    address_range = AddressRange(
        **describe(
            "The network of their addresses; the first one is the hypervisor's. It cannot be changed while micro VMs"
            " have addresses of it.",
            "100.96.0.0/16",
        )
    )
    nameservers = fields.List(
        PublicIp(),
        validate=validate.Length(max=MAX_NAMESERVERS),
        **describe("The name servers that they use: public addresses.", ["1.1.1.1", "9.9.9.9"]),
    )
    refused_networks = networks_field(
        "Networks that they never reach, besides private ones and subnets: further addresses of hypervisors, of the"
        " panel and of your own services.",
        "198.41.0.0/24",
    )


class MicrovmProfileIn(MicrovmProfileFields):
    hypervisor_id = Text(maximum=36, required=True, **describe("The hypervisor.", EXAMPLE_ID))


class MicrovmProfilePatch(Patch, MicrovmProfileFields):
    pass


class MicrovmProfileQuery(PageQuery):
    search = Text(maximum=255, **describe("Part of the hypervisor's name.", "node"))
