"""What a customer sees first, and finding things. Of everything only what the token's person may see."""

from marshmallow import Schema, fields, validate

from api import kit
from panel.auth import permissions
from panel.core.db import session
from panel.schemas.base import about
from panel.schemas.catalog import ID
from panel.schemas.instances import InstanceRow
from panel.services import dashboard, instances

user = kit.User("dashboard", __name__, description="The dashboard")
MOST = 8


def counted(what):
    return fields.Integer(**about(f"How many {what} there are; missing when the person may not see them.", 3))


class Machines(Schema):
    total = fields.Integer(**about("How many instances there are.", 3))
    states = fields.Dict(
        keys=fields.String(), values=fields.Integer(), **about("How many are in each state.", {"running": 3})
    )
    price = fields.Float(**about("What they cost a month.", 12.0))


class Dashboard(Schema):
    instances = fields.Nested(Machines, allow_none=True, **about("Instances; null to who may not see them."))
    tasks_running = fields.Integer(allow_none=True, **about("Tasks under way; null to who may not see them.", 1))
    attention = fields.List(fields.Nested(InstanceRow), **about("Instances that need somebody."))


class Counts(Schema):
    instance = counted("instances")
    project = counted("projects")
    ssh_key = counted("SSH keys")
    member = counted("members of the team")
    sometimes = ("instance", "project", "ssh_key", "member")


class Found(Schema):
    type = fields.String(validate=validate.OneOf(dashboard.KINDS), **about("What it is.", "instance"))
    id = fields.String(**about("Which one.", ID))
    name = fields.String(**about("What people call it.", "Shop front"))
    detail = fields.String(**about("What stands beside the name.", "shop.example.com · 203.0.113.10 · running"))


class Words(Schema):
    q = fields.String(
        required=True, validate=validate.Length(1, 255), metadata={"description": "Part of a name, or of an address."}
    )


@user.get("/dashboard", op="get", can=permissions.ANY_USER, out=kit.keyed("data", Dashboard))
def show():
    """Show what is there, what is under way and what needs attention."""
    access = kit.account()
    seen = dashboard.machines(access)
    ailing = session.scalars(instances.ailing(access).limit(MOST)).unique().all() if seen else []
    data = {"instances": seen, "tasks_running": dashboard.running(access), "attention": ailing}
    return {"message": None, "data": data}


@user.get("/dashboard/summary", op="summary", can=permissions.ANY_USER, out=kit.keyed("data", Counts))
def summary():
    """Count the resources, kind by kind."""
    return {"message": None, "data": dashboard.counts(kit.account())}


@user.get(
    "/dashboard/search",
    op="search",
    can=permissions.ANY_USER,
    query=Words,
    out=kit.done(results=fields.List(fields.Nested(Found), **about("What was found, a few of each kind."))),
)
def search(query):
    """Find resources of every kind by their names."""
    found = [
        {"type": kind, "id": row.id, **dict(zip(("name", "detail"), dashboard.called(row), strict=True))}
        for kind, rows in dashboard.find(kit.account(), query["q"], MOST)
        for row in rows
    ]
    return {"message": None, "results": found}
