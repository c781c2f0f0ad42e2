"""The plans, locations and images that a customer can select."""

from itertools import groupby
from operator import attrgetter

from marshmallow import Schema, fields, validate

from api import kit
from panel.core.db import session
from panel.schemas.base import describe
from panel.schemas.catalog import CurrencyOut, ImageBranch, ImageOut, LocationOut, PlanGroupOut, PlanOut
from panel.services import catalog, instances

user = kit.User("catalog", __name__, description="Locations, plans and images")


@user.get(
    "/cloud-service/locations",
    op="locations",
    can="instances.view",
    query=kit.PageQuery,
    out=kit.build_page_schema(LocationOut),
)
def locations():
    """List the locations."""
    return kit.paginate(catalog.select_locations(kit.get_current_access()))


@user.get(
    "/cloud-service/location/<location_id>/plan-groups",
    op="plan_groups",
    can="instances.view",
    out=PlanGroupOut(many=True),
)
def plan_groups(location_id):
    """List the plan groups of a location."""
    return session.scalars(
        catalog.select_plan_groups(catalog.get_location(location_id, kit.get_current_access()))
    ).all()


@user.get(
    "/cloud-service/location/<location_id>/plan-group/<plan_group_id>/plans",
    op="plans",
    can="instances.view",
    out=PlanOut(many=True),
)
def plans(location_id, plan_group_id):
    """List the plans of a plan group in a location."""
    return session.scalars(
        catalog.select_plans(catalog.get_location(location_id, kit.get_current_access()), plan_group_id)
    ).all()


class ImageSearch(Schema):
    search = fields.String(
        load_default="", validate=validate.Length(max=255), metadata={"description": "Part of a name."}
    )


Branches = Schema.from_dict(
    {"results": fields.List(fields.Nested(ImageBranch), **describe("One entry per distribution."))},
    name="ImageBranches",
)


@user.get("/images/search", op="images", can="images.view", query=ImageSearch, out=Branches)
def image_search(query):
    """Search images, grouped by distribution."""
    return {"results": list(iter_branches(catalog.select_images(kit.get_current_access(), search=query["search"])))}


def iter_branches(query):
    for distro, images in groupby(session.scalars(query), key=attrgetter("distro")):
        yield {"text": distro, "children": list(images)}


FITTING_IMAGES_SCHEMA = {
    "type": "object",
    "description": "Images by distribution: one key per distribution.",
    "properties": {},
    "additionalProperties": {"type": "array", "items": {"$ref": "#/components/schemas/ImageOut"}},
}


@user.get("/instance/<instance_id>/images", op="deploy_images", can="instances.view", out=None)
@user.doc(responses={200: {"content": {"application/json": {"schema": FITTING_IMAGES_SCHEMA}}}})
def deploy_images(instance_id):
    """List the images that can be installed on an instance, by distribution."""
    instance = instances.get(instance_id, kit.get_current_access())
    fitting = [
        i
        for i in session.scalars(catalog.select_images(kit.get_current_access()))
        if instances.image_error(instance, i) is None
    ]
    dump = ImageOut(many=True).dump
    return {distro: dump(list(images)) for distro, images in groupby(fitting, key=attrgetter("distro"))}


@user.get(
    "/cloud-service/currencies",
    op="currencies",
    can="instances.view",
    query=kit.PageQuery,
    out=kit.build_page_schema(CurrencyOut),
)
def currencies():
    """List the currencies of prices.

    All prices and charges are in the installation's currency, so the list has one row.
    """
    return kit.paginate_list([catalog.get_currency()])
