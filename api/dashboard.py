"""The dashboards and searches: a customer's, limited to what the token can access, and the platform's."""

from marshmallow import Schema, fields, validate

from api import kit
from panel.auth import permissions
from panel.core.db import session
from panel.schemas.base import describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.instances import InstanceRow
from panel.schemas.platform import PlatformDashboardOut
from panel.services import accounts, dashboard, instances, overview, platform_health, platform_search

user = kit.User("dashboard", __name__, description="Dashboard and search")
admin = kit.Admin("dashboard", __name__, description="Dashboard and search")
MAX_ROWS = 8


def count_field(resources):
    return fields.Integer(**describe(f"Number of {resources}. Missing if the user cannot see them.", 3))


class Machines(Schema):
    total = fields.Integer(**describe("Number of instances.", 3))
    states = fields.Dict(
        keys=fields.String(), values=fields.Integer(), **describe("Number of instances in each state.", {"running": 3})
    )
    price = fields.Float(**describe("Monthly price of all instances.", 12.0))


class Dashboard(Schema):
    instances = fields.Nested(Machines, allow_none=True, **describe("Instances; null if the user cannot see them."))
    tasks_running = fields.Integer(
        allow_none=True, **describe("Number of active tasks; null if the user cannot see them.", 1)
    )
    attention = fields.List(fields.Nested(InstanceRow), **describe("Instances that need attention."))


Counts = Schema.from_dict(
    {name: count_field(kind.plural) for name, kind in dashboard.COUNTED_KINDS.items()}, name="Counts"
)
kit.with_optional(Counts, dashboard.COUNTED_KINDS)


class Found(Schema):
    type = fields.String(validate=validate.OneOf(dashboard.SEARCHABLE_KINDS), **describe("Resource type.", "instance"))
    id = fields.String(**describe("Resource id.", EXAMPLE_ID))
    name = fields.String(**describe("Display name.", "Shop front"))
    detail = fields.String(**describe("Details shown next to the name.", "shop.example.com · 203.0.113.10 · running"))


class Words(Schema):
    q = fields.String(
        required=True, validate=validate.Length(1, 255), metadata={"description": "Part of a name or address."}
    )


@user.get("/dashboard", op="get", can=permissions.ANY_USER, out=kit.build_wrapped_schema("data", Dashboard))
def show():
    """Get a summary of the account: instances, active tasks and problems."""
    access = kit.get_current_access()
    summary = dashboard.summarize_instances(access)
    problems = session.scalars(instances.select_with_problems(access).limit(MAX_ROWS)).unique().all() if summary else []
    data = {
        "instances": summary,
        "tasks_running": dashboard.count_running_tasks(access),
        "attention": problems,
    }
    return {"message": None, "data": data}


@user.get("/dashboard/summary", op="summary", can=permissions.ANY_USER, out=kit.build_wrapped_schema("data", Counts))
def summary():
    """Count the resources of each type."""
    return {"message": None, "data": dashboard.count_resources(kit.get_current_access())}


@user.get(
    "/dashboard/search",
    op="search",
    can=permissions.ANY_USER,
    query=Words,
    out=kit.build_result_schema(
        results=fields.List(fields.Nested(Found), **describe("Matches, at most 8 of each type."))
    ),
)
def search(query):
    """Search resources of all types by name."""
    results = [
        {"type": kind.name, "id": row.id, **dict(zip(("name", "detail"), kind.describe(row), strict=True))}
        for kind, rows in dashboard.search(kit.get_current_access(), query["q"], MAX_ROWS)
        for row in rows
    ]
    return {"message": None, "results": results}


class PlatformMatch(Found):
    type = fields.String(
        validate=validate.OneOf(platform_search.PLATFORM_KINDS), **describe("Resource type.", "instance")
    )


class PlatformMatches(Schema):
    results = fields.List(fields.Nested(PlatformMatch), **describe("Matches, at most 8 of each type."))


@admin.get("/dashboard", op="get", can="admin:system:read", out=PlatformDashboardOut)
def show_platform():
    """Get a summary of the platform: customers, instances, hypervisors, capacity and problems.

    `problems` has the same values as in `GET /api/v1/system/health`.
    """
    health, states = platform_health.describe_health(), overview.count_states()
    return {
        "customers": accounts.count_customers(),
        "instances": {"total": sum(states.values()), "states": states},
        "hypervisors": health["hypervisor_counts"],
        "problems": health["problems"],
        "locations": overview.list_capacities(),
    }


@admin.get("/dashboard/search", op="search", can="admin:system:read", query=Words, out=PlatformMatches)
def search_platform(query):
    """Search the whole platform.

    Finds the same as the search of the panel: at most 8 resources of each type, by name, id or address.
    """
    groups = platform_search.search(query["q"], MAX_ROWS, lambda permission: True)
    return {
        "results": [
            {"type": kind, "id": row_id, "name": str(label), "detail": str(detail or "")}
            for kind, rows in groups
            for row_id, label, detail in rows
        ]
    }
