"""Customers' sample things."""

from panel.schemas.sample_things import SampleThingIn, SampleThingOut, SampleThingPatch

from api import kit
from panel.services import sample_things

user = kit.User("sample_thing", __name__, description="Sample things")
SAMPLE_THING = kit.wrapped("sample_thing", SampleThingOut)


@user.get("/sample-things", op="list", can="sample_family.view", query=kit.PageQuery, out=kit.page(SampleThingOut))
def listing():
    """List sample things."""
    return kit.paginate(sample_things.listing(kit.account()))


@user.post("/sample-things", op="create", can="sample_family.manage", body=SampleThingIn, out=SAMPLE_THING)
def create(body):
    """Create a sample thing."""
    return {"message": "The sample thing was created.", "sample_thing": sample_things.create(kit.account(), **body)}


@user.get("/sample-thing/<sample_thing_id>", op="get", can="sample_family.view", out=SAMPLE_THING)
def show(sample_thing_id):
    """Show a sample thing."""
    return {"message": None, "sample_thing": sample_things.get(sample_thing_id, kit.account())}


@user.patch(
    "/sample-thing/<sample_thing_id>",
    op="update",
    can="sample_family.manage",
    body=SampleThingPatch,
    out=SAMPLE_THING,
)
def update(body, sample_thing_id):
    """Change a sample thing."""
    sample_thing = sample_things.update(sample_things.get(sample_thing_id, kit.account()), **body)
    return {"message": "The sample thing was changed.", "sample_thing": sample_thing}


@user.delete("/sample-thing/<sample_thing_id>", op="delete", can="sample_family.delete", out=kit.result())
def delete(sample_thing_id):
    """Delete a sample thing."""
    sample_things.delete(sample_things.get(sample_thing_id, kit.account()))
    return {"message": "The sample thing was deleted."}
