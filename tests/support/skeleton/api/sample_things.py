"""Customers' sample things."""

from panel.schemas.sample_things import SampleThingIn, SampleThingOut, SampleThingPatch

from api import kit
from panel.services import sample_things

user = kit.User("sample_thing", __name__, description="Sample things")
SAMPLE_THING = kit.build_wrapped_schema("sample_thing", SampleThingOut)


@user.get(
    "/sample-things",
    op="list",
    can="sample_family.view",
    query=kit.PageQuery,
    out=kit.build_page_schema(SampleThingOut),
)
def listing():
    """List sample things."""
    return kit.paginate(sample_things.listing(kit.get_current_access()))


@user.post("/sample-things", op="create", can="sample_family.manage", body=SampleThingIn, out=SAMPLE_THING)
def create(body):
    """Create a sample thing."""
    return {
        "message": "Sample thing created.",
        "sample_thing": sample_things.create(
            kit.get_current_access(),
            # if task
            actor=kit.get_current_actor(),
            # end if
            **body,
        ),
    }


@user.get("/sample-thing/<sample_thing_id>", op="get", can="sample_family.view", out=SAMPLE_THING)
def show(sample_thing_id):
    """Get a sample thing."""
    return {"message": None, "sample_thing": sample_things.get(sample_thing_id, kit.get_current_access())}


@user.patch(
    "/sample-thing/<sample_thing_id>",
    op="update",
    can="sample_family.manage",
    body=SampleThingPatch,
    out=SAMPLE_THING,
)
def update(body, sample_thing_id):
    """Update a sample thing."""
    sample_thing = sample_things.update(
        sample_things.get(sample_thing_id, kit.get_current_access()),
        # if task
        actor=kit.get_current_actor(),
        # end if
        **body,
    )
    return {"message": "Sample thing updated.", "sample_thing": sample_thing}


@user.delete("/sample-thing/<sample_thing_id>", op="delete", can="sample_family.delete", out=kit.build_result_schema())
def delete(sample_thing_id):
    """Delete a sample thing."""
    sample_things.delete(sample_things.get(sample_thing_id, kit.get_current_access()))
    return {"message": "Sample thing deleted."}
