"""Plans, plan groups and locations in the operators' API."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, In, Int, Name, Number, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID, LocationOut, PlanGroupOut, PlanOut
from panel.schemas.constants import OVERAGE_POLICIES
from panel.schemas.hypervisors import GroupRef


class AdminLocationOut(LocationOut):
    enabled = fields.Boolean(**describe("Whether it is visible to customers.", True))


class PlanGroupFields(In):
    display_name = Name(**describe("Name shown to customers. Defaults to `name`.", "Standard"))
    position = Int(0, 10_000, **describe("Position in lists, lowest first.", 10))
    enabled = Bool(**describe("If false, none of its plans can be selected.", True))
    hypervisor_groups = fields.List(
        Text(maximum=36),
        validate=validate.Length(max=200),
        **describe("Ids of the locations where it is offered.", [EXAMPLE_ID]),
    )


class PlanGroupIn(PlanGroupFields):
    name = Name(maximum=64, required=True, **describe("Unique short name.", "standard"))


class PlanGroupPatch(Patch, PlanGroupFields):
    name = Name(maximum=64, **describe("Unique short name.", "standard"))


class AdminPlanGroupOut(PlanGroupOut):
    position = fields.Integer(**describe("Position in lists, lowest first.", 10))
    enabled = fields.Boolean(**describe("If false, none of its plans can be selected.", True))
    hypervisor_groups = fields.List(
        fields.Nested(GroupRef), attribute="groups", **describe("The locations where it is offered.")
    )
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class PlanFields(In):
    position = Int(0, 10_000, **describe("Position in lists, lowest first.", 10))
    enabled = Bool(**describe("If false, it cannot be selected; existing instances keep it.", True))
    bandwidth = Int(**describe("Monthly traffic in GB; 0 means unlimited.", 1000))
    overage = fields.String(
        validate=validate.OneOf(OVERAGE_POLICIES), **describe("What happens when the traffic is used up.", "network")
    )
    port_speed = Int(0, 1_000_000, **describe("Port speed in Mbit/s per direction; 0 means unlimited.", 1000))
    ipv4 = Int(0, 16, **describe("Included IPv4 addresses.", 1))
    ipv6 = Int(0, 16, **describe("Included IPv6 addresses.", 1))
    ipv6_prefixes = Int(0, 16, **describe("Included IPv6 prefixes, routed to the instance. Defaults to none.", 1))
    private_ipv4 = Int(0, 16, **describe("Included private IPv4 addresses. Defaults to none.", 1))
    price = Number(0, 10**7, **describe("Monthly price in the installation's currency.", 4.5))


def name_field(**options):
    return Name(maximum=64, **options, **describe("Name, unique in the plan group.", "S"))


def cpu_cores_field(**options):
    return Int(1, 512, **options, **describe("CPU cores.", 2))


def ram_field(**options):
    return Int(64, 16 * 1024**2, **options, **describe("Memory in MiB.", 2048))


def storage_field(**options):
    return Int(1, 1024**2, **options, **describe("Size of the first disk in GiB.", 20))


def plan_group_id_field(**options):
    return Text(maximum=36, **options, **describe("The plan group.", EXAMPLE_ID))


class PlanIn(PlanFields):
    plan_group_id = plan_group_id_field(required=True)
    name = name_field(required=True)
    cpu_cores = cpu_cores_field(required=True)
    ram = ram_field(required=True)
    storage = storage_field(required=True)


class PlanPatch(Patch, PlanFields):
    plan_group_id = plan_group_id_field()
    name = name_field()
    cpu_cores = cpu_cores_field()
    ram = ram_field()
    storage = storage_field()


class AdminPlanOut(PlanOut):
    plan_group_id = fields.String(**describe("The plan group.", EXAMPLE_ID))
    plan_group = fields.Nested(GroupRef, attribute="group", **describe("The plan group."))
    position = fields.Integer(**describe("Position in lists, lowest first.", 10))
    enabled = fields.Boolean(**describe("If false, it cannot be selected; existing instances keep it.", True))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class PlanQuery(PageQuery):
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})
